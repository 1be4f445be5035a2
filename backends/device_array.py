"""Arrays in OpenCL buffers: storage, views, and copies to and from the host."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from portable.errors import ShapeError

if TYPE_CHECKING:
    from portable_backends.opencl import OpenCLDevice

__all__ = ["DeviceArray"]

_Index = int | slice | None


class DeviceArray:
    """An N-dimensional view of an OpenCL buffer.

    Attributes
    ----------
    device : OpenCLDevice
        Where it lives.
    buffer : pyopencl.Buffer or pyopencl.PooledBuffer
        The memory, shared by all views of it.
    dtype : numpy.dtype
        Element type.
    shape, strides : tuple of int
        Extents, and bytes between neighbours.
    offset : int
        Bytes from the buffer's beginning to the first element.
    """

    __slots__ = ("__weakref__", "buffer", "device", "dtype", "offset", "shape", "strides")

    def __init__(
        self,
        device: OpenCLDevice,
        buffer: Any,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
        offset: int = 0,
    ) -> None:
        self.device = device
        self.buffer = buffer
        self.dtype = dtype
        self.shape = shape
        self.strides = _contiguous_strides(shape, dtype.itemsize) if strides is None else strides
        self.offset = offset

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def T(self) -> DeviceArray:  # noqa: N802  (the Array API's name)
        """The view with dimensions reversed."""
        return self._with(self.shape[::-1], self.strides[::-1], self.offset)

    def __getitem__(self, index: Any) -> DeviceArray:
        """A view by integers, slices, ``...`` and ``None``; nothing is copied."""
        shape: list[int] = []
        strides: list[int] = []
        offset, dim = self.offset, 0
        for item in self._expanded(index):
            if item is None:
                shape.append(1)
                strides.append(0)
                continue
            extent, stride = self.shape[dim], self.strides[dim]
            dim += 1
            if isinstance(item, slice):
                start, stop, step = item.indices(extent)
                count = len(range(start, stop, step))
                shape.append(count)
                strides.append(stride * step)
                offset += start * stride if count else 0
            else:
                offset += _checked(item, extent) * stride
        return self._with(tuple(shape), tuple(strides), offset)

    def _expanded(self, index: Any) -> list[_Index]:
        """One item per dimension, plus the ``None`` among them."""
        items = list(index) if isinstance(index, tuple) else [index]
        missing = self.ndim - sum(item is not None and item is not Ellipsis for item in items)
        if missing < 0:
            raise ShapeError(f"{len(items)} indices for an array of shape {self.shape}")
        places = [i for i, item in enumerate(items) if item is Ellipsis] or [len(items)]
        if len(places) > 1:
            raise ShapeError("an index can hold one ellipsis (...)")
        return items[: places[0]] + [slice(None)] * missing + items[places[0] + 1 :]

    def _with(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> DeviceArray:
        return DeviceArray(self.device, self.buffer, self.dtype, shape, strides, offset)

    def extent_in_bytes(self) -> tuple[int, int]:
        """Where in the buffer the elements lie: the first byte and one past the last."""
        if not self.size:
            return self.offset, self.offset
        spans = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        low = self.offset + sum(min(span, 0) for span in spans)
        high = self.offset + sum(max(span, 0) for span in spans) + self.dtype.itemsize
        return low, high

    def __repr__(self) -> str:
        return f"<{self.dtype} array of shape {self.shape} on {self.device.name}>"


def _contiguous_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides = [itemsize] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return tuple(strides)


def _checked(item: Any, extent: int) -> int:
    try:
        place = int(item.__index__())
    except AttributeError:
        raise ShapeError(
            f"an index of type {type(item).__name__}; expected integers, slices, ... and None"
        ) from None
    if not -extent <= place < extent:
        raise ShapeError(f"index {place} is out of range for extent {extent}")
    return place % extent
