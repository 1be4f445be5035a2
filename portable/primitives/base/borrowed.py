"""Arrays of other libraries as plans take them."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from portable.backend import ArrayView
from portable.dtypes import DType, dtype
from portable.errors import LaunchError
from portable.lang.arguments.arguments import ALIGNMENT
from portable.namespace import on_device
from portable.primitives.base.storage import Storage

if TYPE_CHECKING:
    from portable.backend import Device


class Borrowed(Storage):
    """The memory of a library's array, or a view of it.

    Where kernels take pointers alone, `offset` says how far the first element lies behind an
    aligned place; elsewhere, as always, how far behind the beginning of `buffer`.

    Attributes
    ----------
    array : array
        The library's.
    start : int
        The `offset` of its first element.
    """

    __slots__ = ("array", "start")

    def __init__(self, device: Device, array: Any) -> None:
        view = device.view(array)
        counted = device.capabilities.pointer_offsets and not device.interprets
        self.start = view.offset if counted else view.address % ALIGNMENT
        self.array = array
        super().__init__(
            device, view.handle, dtype(view.dtype), view.shape, view.strides, self.start
        )

    @property
    def view(self) -> ArrayView:
        """The same as launches take it."""
        kind, shape, strides = self.dtype.numpy, self.shape, self.strides
        return ArrayView(kind, shape, strides, self.buffer, self.offset, self.offset)

    def check_writable(self) -> None:
        """As of `Storage`, and refuses what its library lets nobody write to.

        Raises
        ------
        LaunchError
            If it is read-only.
        """
        super().check_writable()
        if self.array is not None and not self.device.view(self.array).writable:
            raise LaunchError(
                "an array that is written to is read-only; pass a writable one, or a copy of it"
            )

    def viewed(
        self,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int | None = None,
        dtype: DType | None = None,
    ) -> Self:
        """A view of the same memory; `strides` and `offset` in bytes."""
        made = object.__new__(type(self))
        made.array, made.start = self.array, self.start
        kind = self.dtype if dtype is None else dtype
        start = self.offset if offset is None else offset
        Storage.__init__(made, self.device, self.buffer, kind, shape, strides, start)
        return made

    def reach(self) -> tuple[int, int]:
        """The addresses of the array's first byte and of the one behind its last."""
        view = self.device.view(self.array)
        low, high = self.extent_in_bytes()
        return view.address + low - self.start, view.address + high - self.start

    def at(self, buffer: Any, offset: int) -> Self:
        """An array like this one elsewhere; without the library's array."""
        made = self.viewed(self.shape, self.strides, offset)
        made.array, made.buffer = None, buffer
        return made

    def interpreted(self, buffer: Any, offset: int) -> Any:
        """The same elsewhere, as NumPy's array: what devices take that run kernels themselves."""
        address = buffer.__array_interface__["data"][0]
        position = _Place(self, buffer, address + offset - address % ALIGNMENT)
        return np.asarray(position).view(self.dtype.numpy)  # an interface knows no bfloat16


class _Place:
    """Memory as NumPy asks for it."""

    def __init__(self, like: Storage, memory: Any, address: int) -> None:
        self._memory = memory
        self.__array_interface__ = {
            "version": 3,
            "shape": like.shape,
            "strides": like.strides,
            "typestr": like.dtype.numpy.str,
            "data": (address, not memory.flags.writeable),
        }


def stored(device: Device, array: Any) -> Storage:
    """An array of a device, of whatever library, as plans take it."""
    return array if isinstance(array, Storage) else Borrowed(device, on_device(device, array))


def borrowed(device: Device, make: Callable[[], Any]) -> Borrowed:
    """What a device makes, of its own library.

    Parameters
    ----------
    device : Device
        Where.
    make : callable
        Such as `Device.maker` gives.
    """
    return Borrowed(device, make())


def new(device: Device, shape: tuple[int, ...], kind: DType) -> Storage:
    """A new array of a device, of the library that it works with.

    Parameters
    ----------
    device : Device
        Where.
    shape : tuple of int
        Extents.
    kind : DType
        Of the elements.
    """
    return stored(device, device.empty(shape, kind))


def released(x: Storage) -> Any:
    """The library's own array for what a plan gave, which is contiguous."""
    if not isinstance(x, Borrowed):
        return x
    if x.offset == x.start and x.shape == tuple(x.array.shape):
        return x.array
    flat = x.device.namespace().reshape(x.array, (-1,))
    first = (x.offset - x.start) // x.dtype.itemsize
    if (first, prod(x.shape)) != (0, flat.shape[0]):
        flat = flat[first : first + prod(x.shape)]
    return x.device.namespace().reshape(flat, x.shape)


def fetched(x: Storage) -> np.ndarray[Any, Any]:
    """A copy on the host; waits for the device."""
    return x.device.to_numpy(released(x))
