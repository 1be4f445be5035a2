"""Whether NVIDIA's OpenCL copies in bulk, by instructions of its assembler.

These are of PTX for `sm_90`, which is what its driver assembles for; but that it does is in no
document, so that a kernel with a copy either way is built and run, once for each driver.
"""

from __future__ import annotations

from functools import cache as kept_in_process
from typing import Final

import numpy as np
import pyopencl as cl

from portable_backends.opencl.probes import ITEMS, output_of, remembered

_SOURCE: Final = """
#define PTX __asm__ volatile
__kernel void probe(__global const uint *x, __global uint *out) {
    __local uint array[128] __attribute__((aligned(128)));
    __local ulong arrived[1];
    const uint to = (uint)(size_t)array, at = (uint)(size_t)arrived;
    if (get_local_id(0) == 0) {
        PTX("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at) : "memory");
        PTX("fence.mbarrier_init.release.cluster;" ::: "memory");
        PTX("fence.proxy.async.shared::cta;" ::: "memory");
        PTX("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" :: "r"(at) : "memory");
        PTX("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, "
            "[%2];" :: "r"(to), "l"((ulong)x), "r"(at) : "memory");
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint done = 0;
    for (uint i = 0; i < 1000000 && !done; i++)
        PTX("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; "
            "selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(at) : "memory");
    array[get_local_id(0)] += 1;
    PTX("fence.proxy.async.shared::cta;" ::: "memory");
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0) {
        PTX("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;"
            :: "l"((ulong)out), "r"(to) : "memory");
        PTX("cp.async.bulk.commit_group;" ::: "memory");
        PTX("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
"""


@kept_in_process
def copies_in_bulk(device: cl.Device) -> bool:
    """Whether a device's driver assembles copies in bulk, and they copy."""
    return bool(remembered(device, _SOURCE, lambda: copies(device), 0))


def copies(device: cl.Device) -> bool:
    """The same, found out now, in a context that a kernel that fails takes away from nobody."""
    out = output_of(cl.Context([device]), _SOURCE)
    return out is not None and bool((out == np.arange(1, ITEMS + 1)).all())
