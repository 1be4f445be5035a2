"""New arrays whose memory counts as never written, until a kernel or the host writes it.

A host's writes are not seen as they happen. New memory therefore holds a pattern, and what no
longer holds it has been written.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from portable.dtypes import DType
from portable.sim.values import Value

_PATTERN: Final = np.random.default_rng(20240229).integers(0x21, 0xF0, 64, np.uint8)
_LOCK: Final = threading.Lock()


class _Allocation:
    """One new array: where it lies, and which of its bytes kernels have not written."""

    __slots__ = ("_bytes", "_fine", "high", "low", "unwritten")

    def __init__(self, array: NDArray[Any], fine: bool) -> None:
        self.low = array.__array_interface__["data"][0]
        self.high = self.low + array.nbytes
        self._bytes = weakref.ref(array)
        self._fine = fine
        self.unwritten = np.ones(array.nbytes, np.bool_)

    def update(self) -> None:
        """Notice what the host has written since."""
        array = self._bytes()
        if array is None or not self.unwritten.any():
            return
        width = array.itemsize
        content = array.reshape(-1).view(np.uint8)
        same = (content == np.resize(_PATTERN, content.size)).reshape(-1, width).all(axis=1)
        same = np.repeat(same, width)
        if self._fine:
            self.unwritten &= same
        elif (self.unwritten & ~same).any():
            self.unwritten[:] = False


_ALLOCATIONS: Final[dict[int, _Allocation]] = {}


def empty(shape: tuple[int, ...], dtype: DType) -> NDArray[Any]:
    """A new C-contiguous array; kernels that read it before it is written are reported.

    Of elements narrower than four bytes, all count as written once the host has written one:
    too many values look like memory never written.

    Parameters
    ----------
    shape : tuple of int
        Extents.
    dtype : DType
        Element type.
    """
    array: NDArray[Any] = np.empty(shape, dtype.numpy)
    if array.nbytes:
        flat = array.reshape(-1).view(np.uint8)
        flat[:] = np.resize(_PATTERN, flat.size)
        key = id(array)
        with _LOCK:
            _ALLOCATIONS[key] = _Allocation(array, dtype.itemsize >= 4)
        weakref.finalize(array, _ALLOCATIONS.pop, key, None)
    return array


def _overlapping(low: int, high: int) -> list[_Allocation]:
    with _LOCK:
        return [a for a in list(_ALLOCATIONS.values()) if a.low < high and low < a.high]


def within(low: int, high: int) -> Value | None:
    """Which bytes of a range of addresses nothing has written; None where all are written."""
    out: Value | None = None
    for allocation in _overlapping(low, high):
        allocation.update()
        if allocation.unwritten.any():
            out = np.zeros(high - low, np.bool_) if out is None else out
            begin, end = max(low, allocation.low), min(high, allocation.high)
            mine = slice(begin - allocation.low, end - allocation.low)
            out[begin - low : end - low] = allocation.unwritten[mine]
    return out


def wrote(low: int, written: Value) -> None:
    """A kernel has written these bytes from an address on."""
    high = low + written.size
    for allocation in _overlapping(low, high):
        begin, end = max(low, allocation.low), min(high, allocation.high)
        mine = slice(begin - allocation.low, end - allocation.low)
        allocation.unwritten[mine] &= ~written[begin - low : end - low]
