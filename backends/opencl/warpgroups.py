"""Whether NVIDIA's OpenCL has Hopper's warpgroup instructions, which its compiler does not know.

A kernel that multiplies finds out, once for each driver, in a process of its own: a driver that is
given a binary as none was meant to be (`opencl_covered`) may end the process.
"""

from __future__ import annotations

from functools import cache as kept_in_process
from typing import Final

import numpy as np
import pyopencl as cl

from portable.lang.emit.opencl import COVER
from portable_backends.opencl.probes import ITEMS, answer, asked_apart, output_of, remembered

_ONES: Final = 0x3C003C00
_SUM: Final = 16
"""Of the products of a row of ones and a column of ones."""

_SOURCE: Final = f"""
#define PTX __asm__ volatile
__kernel __attribute__((reqd_work_group_size({ITEMS}, 1, 1)))
void probe(__global const uint *x, __global uint *out) {{
    __local uint ones[2048] __attribute__((aligned(1024)));
    const uint item = get_local_id(0), at = (uint)(size_t)ones;
    const ulong matrix = (ulong)((at & 0x3ffffu) >> 4) | (8ul << 16) | (16ul << 32);
    for (uint i = item; i < 2048; i += {ITEMS}) ones[i] = {_ONES};
    PTX("fence.proxy.async.shared::cta;" ::: "memory");
    barrier(CLK_LOCAL_MEM_FENCE);
    float a = x[item], b = a, c = a, d = a;
    PTX("{COVER}wgmma.fence.sync.aligned;" ::: "memory");
    PTX("{COVER}wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%0, %1, %2, %3}}, %4, %4, "
        "1, 1, 1, 0, 0;" : "+f"(a), "+f"(b), "+f"(c), "+f"(d) : "l"(matrix));
    PTX("{COVER}wgmma.commit_group.sync.aligned;" ::: "memory");
    PTX("{COVER}wgmma.wait_group.sync.aligned 0;" ::: "memory");
    PTX("" : "+f"(a), "+f"(b), "+f"(c), "+f"(d) :: "memory");
    out[item] = (uint)(a + b + c + d);
}}
"""
"""Adds a product of ones to its own number in each of the four registers of a work-item."""


@kept_in_process
def has_warpgroups(device: cl.Device) -> bool:
    """Whether a device's driver takes programs with warpgroup instructions, and they multiply."""
    return bool(remembered(device, _SOURCE, lambda: asked_apart(__name__, device), 0))


def multiplies(device: cl.Device) -> bool:
    """The same, found out now and in this process."""
    out = output_of(cl.Context([device]), _SOURCE)
    return out is not None and bool((out == 4 * (np.arange(ITEMS) + _SUM)).all())


if __name__ == "__main__":
    answer(multiplies)
