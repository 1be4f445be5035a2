"""The processor by LLVM for arrays of `portable.array`, whose every function then runs on it.

It has the name ``cpu:native-arrays`` and is asked for by that alone: `portable.xp` of ``cpu`` is
NumPy, which is faster there for most of what a function does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np

from portable.array.array import Array
from portable.backend import ArrayView, ViewCode, bytes_of
from portable.dtypes import DType, dtype
from portable.errors import OutOfMemoryError
from portable.profiling import timeline
from portable_backends.common.addresses import address_of
from portable_backends.common.devices import ArrayDevice
from portable_backends.cpu.native_device import NativeDevice

_LINE = 64


class _Memory(int):
    """An address, and the NumPy array that holds what is there."""

    held: np.ndarray[Any, Any]

    @classmethod
    def of(cls, size: int) -> Self:
        """New memory that begins where a line of the caches does."""
        held = np.empty(size + _LINE, np.uint8)
        address = address_of(held)
        made = cls(address + -address % _LINE)
        made.held = held[-address % _LINE :][:size]
        return made


class ArrayNativeDevice(ArrayDevice, NativeDevice):
    """Like ``cpu:native`` in all but its arrays."""

    name = "cpu:native-arrays"
    words = frozenset({"native-arrays"})

    def __init__(self) -> None:
        super().__init__()
        self.capabilities = replace(self.capabilities, pointer_offsets=True)
        self._array = Array

    def view(self, array: Any) -> ArrayView:
        """Describe one of this device's arrays, or of NumPy's."""
        return NativeDevice.view(self, array) if isinstance(array, np.ndarray) else array.described

    def view_code(self, array: Any) -> ViewCode | None:
        """How compiled code sees either."""
        kind = NativeDevice if isinstance(array, np.ndarray) else ArrayDevice
        return kind.view_code(self, array)

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """A new array."""
        size = max(bytes_of(shape, dtype.itemsize), dtype.itemsize)
        try:
            return Array.new(self, _Memory.of(size), dtype, shape)
        except MemoryError as error:
            raise OutOfMemoryError(f"no room for {shape} of {dtype} on {self.name}") from error

    def maker(self, shape: tuple[int, ...], dtype: DType) -> Callable[[], Any]:
        """What makes arrays as `empty` does."""
        return partial(self.empty, shape, dtype)

    def from_numpy(self, array: np.ndarray[Any, Any]) -> Any:
        """A contiguous copy."""
        with timeline.copying(self, "to device", array.nbytes):
            made = self.empty(array.shape, dtype(array.dtype))
            self.shared(made)[...] = array
        return made

    def to_numpy(self, array: Any) -> np.ndarray[Any, Any]:
        """A contiguous copy."""
        with timeline.copying(self, "from device", array.nbytes):
            return np.array(self.shared(array), order="C")

    def shared(self, array: Any) -> np.ndarray[Any, Any]:
        """The elements in place."""
        if isinstance(array, np.ndarray):
            return array
        kind = array.dtype.numpy
        if not array.size:
            return np.empty(array.shape, kind)
        return np.ndarray(array.shape, kind, array.buffer.held, array.offset, array.strides)

    def in_place(self, array: np.ndarray[Any, Any]) -> ArrayView | None:
        """As NumPy's arrays lie, where their memory is aligned to their elements."""
        return NativeDevice.view(self, array) if array.size and array.flags.aligned else None
