"""What an array is before it can compute: a buffer of a device, a dtype, a shape, strides."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from functools import lru_cache
from math import prod
from typing import Any, ClassVar, Self

import numpy as np

from portable.backend import ArrayView, Device
from portable.dtypes import DType, dtype
from portable.errors import BadIndexError, LaunchError
from portable.lang.arguments.arguments import ALIGNMENT, layout_number
from portable.namespace import on_device


class Storage:
    """An N-dimensional view of a device's buffer; knows views, and computes nothing.

    Attributes
    ----------
    device : Device
        Where it lives.
    buffer : object
        The device's handle of the memory, shared by all views of it.
    dtype : DType
        Element type.
    shape, strides : tuple of int
        Extents, and bytes between neighbours.
    offset : int
        Bytes from the buffer's beginning to the first element.
    """

    new: ClassVar[Any]
    """Makes arrays of the same class, given what it is given."""
    finished: ClassVar[type[Storage]]
    """The class that an array has once its attributes are set."""

    __slots__ = (
        "__weakref__",
        "_view",
        "buffer",
        "device",
        "dtype",
        "offset",
        "shape",
        "strides",
    )

    def __init__(
        self,
        device: Device,
        buffer: Any,
        dtype: DType,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
        offset: int = 0,
    ) -> None:
        self.device = device
        self.buffer = buffer
        self.dtype = dtype
        self.shape = shape
        self.strides = contiguous_strides(shape, dtype.itemsize) if strides is None else strides
        self.offset = offset
        self._view: ArrayView | None = None
        self.__class__ = self.finished  # noqa: PLE0237  (which every object has)

    @property
    def described(self) -> ArrayView:
        """The same as kernels take it; made once, since launches ask for it and nothing changes."""
        view = self._view
        if view is None:
            view = ArrayView(
                self.dtype.numpy,
                self.shape,
                self.strides,
                self.buffer,
                self.offset,
                self.offset,
                id(self.buffer),
                True,
                layout_number(self.dtype.numpy, self.shape, self.strides, self.offset),
            )
            _keep_view(self, view)
        return view

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.size * self.dtype.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie one after the other in C order."""
        expected = self.dtype.itemsize
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent != 1 and stride != expected:
                return not self.size
            expected *= extent
        return True

    @property
    def is_repeated(self) -> bool:
        """Whether an element in memory stands for several, as in what `broadcast_to` gives."""
        if 0 not in self.strides or not self.size:
            return False
        return any(n > 1 and not s for n, s in zip(self.shape, self.strides, strict=True))

    def check_writable(self) -> None:
        """Refuses to have several values written to one element in memory.

        Raises
        ------
        ValueError
            If `is_repeated`.
        """
        if self.is_repeated:
            raise ValueError(
                f"a view of shape {self.shape} that repeats elements of a smaller array cannot be "
                "written to; make a copy of it: asarray(x, copy=True)"
            )

    def viewed(
        self,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int | None = None,
        dtype: DType | None = None,
    ) -> Self:
        """A view of the same memory; `strides` and `offset` in bytes."""
        kind = self.dtype if dtype is None else dtype
        start = self.offset if offset is None else offset
        made: Self = self.new(self.device, self.buffer, kind, shape, strides, start)
        return made

    def shaped(self, shape: tuple[int, ...], dtype: DType | None = None) -> Self:
        """The same elements, which lie together, in another shape, or as of another dtype."""
        size = self.dtype.itemsize if dtype is None else dtype.itemsize
        return self.viewed(shape, contiguous_strides(shape, size), dtype=dtype)

    def at(self, buffer: Any, offset: int) -> Self:
        """An array like this one elsewhere."""
        made: Self = self.new(self.device, buffer, self.dtype, self.shape, self.strides, offset)
        return made

    def interpreted(self, buffer: Any, offset: int) -> Any:
        """The same elsewhere, for devices that run kernels themselves."""
        return self.at(buffer, offset)

    def part(self, index: Any) -> Self:
        """A view by integers, slices, ``...`` and ``None``; nothing is copied.

        Raises
        ------
        BadIndexError
            If the index is out of range or of another kind.
        """
        shape: list[int] = []
        strides: list[int] = []
        offset, dim = self.offset, 0
        for item in expanded_index(index, self.shape):
            if item is None:
                shape.append(1)
                strides.append(0)
                continue
            extent, stride = self.shape[dim], self.strides[dim]
            dim += 1
            if isinstance(item, slice):
                start, count, step = _sliced(item, extent)
                shape.append(count)
                strides.append(stride * step)
                offset += start * stride if count else 0
            else:
                offset += _checked(item, extent) * stride
        return self.viewed(tuple(shape), tuple(strides), offset)

    def extent_in_bytes(self) -> tuple[int, int]:
        """Where in the buffer the elements lie: the first byte and one past the last."""
        low = high = self.offset
        for extent, stride in zip(self.shape, self.strides, strict=True):
            if not extent:
                return self.offset, self.offset
            if stride < 0:
                low += (extent - 1) * stride
            else:
                high += (extent - 1) * stride
        return low, high + self.dtype.itemsize

    def overlaps(self, other: Storage) -> bool:
        """Whether the bytes that the elements span are partly those of another's."""
        if self.buffer is not other.buffer:
            return False
        low, high = self.extent_in_bytes()
        other_low, other_high = other.extent_in_bytes()
        return low < other_high and other_low < high


_keep_view = Storage.__dict__["_view"].__set__


def contiguous_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The strides of C order, in bytes."""
    if len(shape) == 1:
        return (itemsize,)
    strides = [itemsize] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * max(shape[i + 1], 1)
    return tuple(strides)


def expanded_index(index: Any, shape: tuple[int, ...], taken: int = 0) -> list[Any]:
    """The items of an index, ``...`` replaced by slices; `taken` more dimensions are used up.

    Parameters
    ----------
    index : object
        What stood in the brackets.
    shape : tuple of int
        Of the array.
    taken : int
        How many dimensions other items use up.

    Raises
    ------
    BadIndexError
        If there are too many, or two ellipses.
    """
    items = list(index) if isinstance(index, tuple) else [index]
    named, places = taken, []
    for dim, item in enumerate(items):
        if item is Ellipsis:
            places.append(dim)
        elif item is not None:
            named += 1
    missing = len(shape) - named
    if missing < 0:
        raise BadIndexError(f"{named} indices for an array of shape {shape}")
    if len(places) > 1:
        raise BadIndexError("an index can hold one ellipsis (...)")
    if not missing and not places:
        return items
    dim = places[0] if places else len(items)
    return items[:dim] + [slice(None)] * missing + items[dim + 1 :]


def _sliced(item: slice, extent: int) -> tuple[int, int, int]:
    try:
        start, stop, step = item.indices(extent)
    except (TypeError, ValueError) as error:
        raise BadIndexError(f"{item}: {error}") from None
    return start, len(range(start, stop, step)), step


def _checked(item: Any, extent: int) -> int:
    if isinstance(item, bool):
        raise BadIndexError("an index of type bool stands alone; wrap it in an array")
    try:
        index_value = int(item.__index__())
    except (AttributeError, TypeError):
        raise BadIndexError(
            f"an index of type {type(item).__name__}; expected integers, slices, ..., None, or "
            "arrays of integers or bools"
        ) from None
    if not -extent <= index_value < extent:
        raise BadIndexError(f"index {index_value} is out of range for extent {extent}")
    return index_value % extent


# Arrays of other libraries as plans take them.


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
        # All that is set by `Storage`, here without its call: small operations borrow at each one.
        kind, self.shape, self.strides, self.buffer, address, offset, *_ = device.view(array)
        counted = device.capabilities.pointer_offsets and not device.interprets
        self.start = self.offset = offset if counted else address % ALIGNMENT
        self.array = array
        self.device = device
        self.dtype = dtype(kind)

    @property
    def described(self) -> ArrayView:
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

    def new(self, *given: Any) -> Self:
        """One of the same library's array, given what `Storage` is."""
        made = object.__new__(type(self))
        made.array, made.start = self.array, self.start
        Storage.__init__(made, *given)
        return made

    def reach(self) -> tuple[int, int]:
        """The addresses of the array's first byte and of the one behind its last."""
        view = self.device.view(self.array)
        low, high = self.extent_in_bytes()
        return view.address + low - self.start, view.address + high - self.start

    def at(self, buffer: Any, offset: int) -> Self:
        """An array like this one elsewhere; without the library's array."""
        made = super().at(buffer, offset)
        made.array = None
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


Borrowed.finished = Borrowed


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


# Arrays that kernels leave as they found them, for the next launch: one for each queue.
#
# Launches in one queue follow each other; those in two may run at the same time, and would find
# what the other is about to clean up.


class ByQueue:
    """What `make` makes, once for each queue of a device; calling it gives the current one's."""

    def __init__(self, device: Device, make: Callable[[], Any]) -> None:
        self._device = device
        self._make = make
        self._made: dict[Hashable, Any] = {}

    def __call__(self) -> Any:
        """That of the current queue, made when it is first asked for."""
        queue = self._device.current_queue()
        made = self._made.get(queue)
        if made is None:
            made = self._made[queue] = self._make()
        return made


@lru_cache(maxsize=256)
def zeros_by_queue(device: Device, count: int) -> ByQueue:
    """So many ``int32`` zeros, which kernels leave as zeros."""
    return ByQueue(device, lambda: stored(device, device.from_numpy(np.zeros(count, np.int32))))
