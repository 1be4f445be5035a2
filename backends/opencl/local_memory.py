"""How much local memory NVIDIA's OpenCL has, which tells of 48 KiB on every GPU.

Kernels may declare arrays as large as the GPU has room for (seen with driver 580 on an H200), as
those of CUDA may once they ask for it; arguments of local memory stay within what the driver tells
of. No document promises this, so that a kernel with such an array is built and run, once for each
driver: the answer is kept in the cache of compiled programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache as kept_in_process
from typing import Final

import numpy as np
import pyopencl as cl

from portable_backends.opencl.probes import ITEMS, output_of, remembered

SIZES: Final = tuple(kib * 1024 for kib in (227, 226, 163, 162, 99, 98, 96, 95, 64))
"""What a workgroup may have on NVIDIA's GPUs ("CUDA C++ Programming Guide", "Technical
specifications per compute capability"), and the KiB less that OpenCL left on an H200."""

_SOURCE: Final = """
__kernel void probe(__global const uint *x, __global uint *out) {{
    __local uint array[{count}];
    const uint item = get_local_id(0);
    for (uint i = item; i < {count}; i += {items}) array[i] = i;
    barrier(CLK_LOCAL_MEM_FENCE);
    out[item] = array[{count} - 1 - item];
}}
"""
"""Work-items read what others wrote, so that no compiler can leave the array out."""


@kept_in_process
def largest_array(device: cl.Device, told: int) -> int:
    """Bytes of the largest array in local memory that a driver takes; `told` if no larger one.

    Parameters
    ----------
    device : pyopencl.Device
        The device.
    told : int
        Bytes that its driver tells of.
    """
    question = f"{_SOURCE} {SIZES} {told}"
    return remembered(device, question, lambda: largest_taken(device, told, SIZES), told)


def largest_taken(device: cl.Device, told: int, sizes: Sequence[int]) -> int:
    """The first of `sizes`, which get smaller, that a kernel's array can have; else `told`.

    In a context of its own, which a kernel that fails takes nobody else's memory away with.

    Raises
    ------
    pyopencl.Error
        If there is no room for a context, or a kernel that was built cannot be run.
    """
    context = cl.Context([device])
    larger = (size for size in sizes if size > told)
    return next((size for size in larger if _takes(context, size)), told)


def _takes(context: cl.Context, size: int) -> bool:
    """Whether a kernel with an array of so many bytes is built, and its elements are kept."""
    count = size // 4
    out = output_of(context, _SOURCE.format(count=count, items=ITEMS))
    return out is not None and bool((out == np.arange(count - ITEMS, count)[::-1]).all())
