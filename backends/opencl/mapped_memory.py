"""OpenCL buffers of processors as NumPy's arrays in the same memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

if TYPE_CHECKING:
    from portable.array.array import Array
    from portable_backends.opencl.runtime import Runtime


class _Place:
    """Memory of an array, as NumPy asks for it; keeps it mapped, and out of the pool."""

    def __init__(self, array: Array, mapped: Any, low: int) -> None:
        self._kept = array.buffer, mapped
        self.__array_interface__ = {
            "version": 3,
            "shape": array.shape,
            "strides": array.strides,
            "typestr": array.dtype.numpy.str,
            "data": (mapped.ctypes.data + array.offset - low, False),
        }


def in_place(runtime: Runtime, array: Array) -> np.ndarray[Any, Any]:
    """The elements where they are, once all work enqueued is done.

    The memory stays mapped while NumPy's array lives. OpenCL leaves open what a kernel does to
    mapped memory; a processor's buffers lie in the host's memory, mapped or not.
    """
    if not array.size:
        return np.empty(array.shape, array.dtype.numpy)
    low, high = array.extent_in_bytes()
    enqueue_map: Any = cl.enqueue_map_buffer  # whose types take no dtypes and no sums of flags
    flags = cl.map_flags.READ | cl.map_flags.WRITE
    with runtime.gate.lock:
        mapped, event = enqueue_map(
            runtime.current(), array.buffer, flags, low, (high - low,), np.uint8, is_blocking=False
        )
    runtime.wait(event)
    return np.asarray(_Place(array, mapped, low))
