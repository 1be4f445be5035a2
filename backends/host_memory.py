"""NumPy arrays as OpenCL kernel arguments without copying."""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import Any, NamedTuple, cast

import numpy as np
import pyopencl as cl

from portable.backend import ArrayView
from portable.errors import OutOfMemoryError, ShapeError

__all__ = ["BufferMemory", "SharedMemory"]

_HostArray = np.ndarray[Any, Any]
_ALIGNMENT = 64


def _address(array: _HostArray) -> int:
    return cast(int, array.__array_interface__["data"][0])


def _refuse_unaligned(array: _HostArray) -> None:
    if not array.flags.aligned:
        raise ShapeError(
            f"a {array.dtype} array whose memory is not aligned to its elements cannot be passed to "
            "a kernel; pass a copy (x.copy())"
        )


class _Anchor(ctypes.c_char):
    """One byte at an address, keeping the array that owns it alive."""

    array: _HostArray


class SharedMemory:
    """For devices that read all host memory (fine-grain system SVM): the address is the argument."""

    pointer_offsets = False

    def view(self, array: _HostArray) -> ArrayView:
        """Describe `array`; its handle points at its first element."""
        _refuse_unaligned(array)
        flags = array.flags
        handle: Any
        if flags.writeable and flags.forc and array.size:
            handle = cl.SVM(array)
            address = handle.svm_ptr
        else:
            address = _address(array)
            anchor = _Anchor.from_address(address)
            anchor.array = array
            handle = cl.SVM(anchor)
        return ArrayView(
            array.dtype, array.shape, array.strides, handle, address, 0, None, flags.writeable
        )


class _Entry(NamedTuple):
    buffer: cl.Buffer
    low: int
    high: int
    owner: weakref.ref[_HostArray]


class BufferMemory:
    """For devices that need buffers: one over each owner of memory, views being offsets into it.

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
        self._entries: dict[int, _Entry] = {}
        self._lock = threading.Lock()

    def view(self, array: _HostArray) -> ArrayView:
        """Describe `array`; its handle is the buffer of the memory that it is a view of."""
        _refuse_unaligned(array)
        address = _address(array)
        entry = self._entry(array, address)
        return ArrayView(
            array.dtype,
            array.shape,
            array.strides,
            entry.buffer,
            address,
            address - entry.low,
            None,
            array.flags.writeable,
        )

    def _entry(self, array: _HostArray, address: int) -> _Entry:
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        found = self._entries.get(id(owner))
        if found is not None and found.low <= address < found.high:
            return found
        low, high = np.lib.array_utils.byte_bounds(owner)
        if high - low > self._largest:
            return self._make(array)
        made = self._make(owner)
        with self._lock:
            self._entries[id(owner)] = made
        weakref.finalize(owner, self._entries.pop, id(owner), None).atexit = False
        return made

    def _make(self, array: _HostArray) -> _Entry:
        """A buffer over all of `array`'s memory, from an address aligned for every element type."""
        low, high = np.lib.array_utils.byte_bounds(array)
        low -= low % _ALIGNMENT
        size = max(high - low, _ALIGNMENT)
        if size > self._largest:
            raise OutOfMemoryError(
                f"an array of {high - low} bytes is larger than this device takes in one piece "
                f"({self._largest} bytes); split it, or use Intel's runtime: "
                "pip install 'portable-arrays[cpu]'"
            )
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        memory = (ctypes.c_char * size).from_address(low)
        buffer = cl.Buffer(self._context, flags, hostbuf=memory)
        return _Entry(buffer, low, low + size, weakref.ref(array))
