"""NumPy arrays as OpenCL kernel arguments without copying."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyopencl as cl

from portable.backend import ArrayView, ViewCode
from portable.errors import OutOfMemoryError
from portable_backends.common.addresses import HostArray, address_of, refuse_unaligned

_ALIGNMENT = 64
_KEPT_BUFFERS = 1024
_new_view: Callable[..., ArrayView] = tuple.__new__


class _Anchor(ctypes.c_char):
    """One byte at an address, keeping the array that owns it alive."""

    array: HostArray


def memory_of(device: cl.Device, context: cl.Context, largest: int) -> SharedMemory | BufferMemory:
    """How a processor's runtime takes NumPy's arrays.

    Parameters
    ----------
    device : pyopencl.Device
    context : pyopencl.Context
    largest : int
        Bytes of its largest buffer.
    """
    shared = device.svm_capabilities & cl.device_svm_capabilities.FINE_GRAIN_SYSTEM
    return SharedMemory() if shared else BufferMemory(context, largest)


class SharedMemory:
    """For devices that read all host memory (fine-grain system SVM): an argument is an address."""

    pointer_offsets = False

    def view(self, array: HostArray) -> ArrayView:
        """Describe `array`; its handle points at its first element."""
        try:
            handle: Any = cl.SVM(array)
            address = handle.svm_ptr
            writable = True
        except ValueError:  # read-only, or with gaps
            address = address_of(array)
            anchor = _Anchor.from_address(address)
            anchor.array = array
            handle = cl.SVM(anchor)
            writable = array.flags.writeable
        if address % _ALIGNMENT and not array.flags.aligned:
            refuse_unaligned(array)
        # Past the constructor, which would be a third of the time that this takes.
        return _new_view(
            ArrayView,
            (array.dtype, array.shape, array.strides, handle, address, 0, None, writable, None),
        )

    def behind(self, handle: Any, by: int) -> Any:
        """What kernels take for so many bytes behind a handle, whose array the caller keeps."""
        return cl.SVM(_Anchor.from_address(handle.svm_ptr + by))

    def view_code(self, array: HostArray) -> ViewCode | None:
        """How compiled code sees arrays like this one, if it is writable and without gaps.

        The others, PyOpenCL refuses to take as they are.
        """
        flags = array.flags
        if type(array) is not np.ndarray or not (flags.forc and flags.writeable):
            return None
        return _SHARED


class BufferMemory:
    """For devices that need buffers: one over each owner of memory, views being offsets into it.

    Buffers are kept by address. One that outlives its array does no harm: it owns nothing, and
    serves the next array that comes to lie at the same place.

    Parameters
    ----------
    context : pyopencl.Context
        Where buffers live.
    largest : int
        Bytes of the largest buffer.
    """

    pointer_offsets = True

    def __init__(self, context: cl.Context, largest: int) -> None:
        self._context = context
        self._largest = largest
        self._buffer = lru_cache(maxsize=_KEPT_BUFFERS)(self._new_buffer)

    def view(self, array: HostArray) -> ArrayView:
        """Describe `array`; its handle is the buffer of the memory that it is a view of."""
        if not array.flags.aligned:
            refuse_unaligned(array)
        address = address_of(array)
        low, size = self._region(array)
        return ArrayView(
            array.dtype,
            array.shape,
            array.strides,
            self._buffer(low, size),
            address,
            address - low,
            None,
            array.flags.writeable,
        )

    def behind(self, handle: Any, by: int) -> Any:
        """Not for buffers, which go with offsets."""
        raise NotImplementedError("buffers go with offsets")

    def view_code(self, array: HostArray) -> ViewCode | None:
        """None: each array's buffer is to be found."""
        return None

    def _region(self, array: HostArray) -> tuple[int, int]:
        """Start and size of the owner's memory, or of the array's own where that is too large."""
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        low, size = _span(owner)
        if size > self._largest:
            low, size = _span(array)
        if size > self._largest:
            raise OutOfMemoryError(
                f"an array of {size} bytes is larger than this device takes in one piece "
                f"({self._largest} bytes); split it, or use Intel's runtime: "
                "pip install 'portable-arrays[cpu]'"
            )
        return low, size

    def _new_buffer(self, low: int, size: int) -> cl.Buffer:
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        memory: Any = (ctypes.c_char * size).from_address(low)
        return cl.Buffer(self._context, flags, hostbuf=memory)


_SHARED = ViewCode(
    np.ndarray,
    same="{x}.dtype is {x}_dtype and {x}.shape == {x}_shape and {x}.strides == {x}_strides",
    handle="SVM({x})",
    address="{x}_handle.svm_ptr",
    offset="0",
    owner="None",
    names={"SVM": cl.SVM},
)


def _span(array: HostArray) -> tuple[int, int]:
    """Where the array's memory starts, aligned for every element type, and its size from there."""
    if array.flags.forc:
        low = address_of(array)
        high = low + array.nbytes
    else:
        low, high = np.lib.array_utils.byte_bounds(array)
    start = low - low % _ALIGNMENT
    return start, max(high - start, _ALIGNMENT)
