"""Convolution of one tap as the product of matrices that it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, Final

from portable.backend import Device
from portable.conv.direct.adding import add_up
from portable.conv.direct.boxes import channels_last
from portable.conv.geometry import Geometry, Layout, Window
from portable.conv.layouts import in_c_order
from portable.conv.method import Epilogue, Method
from portable.lang.arguments.arguments import ALIGNMENT
from portable.linalg.products.gemm import gemm
from portable.linalg.products.kernels import keep
from portable.linalg.products.rows import copy_into

_TILE: Final = 128
"""Pixels of a tile of a product, about."""

_MANY_FILTERS: Final = 128
"""From which on pixels are copied to aligned rows."""

_COPIED: Final = 250
"""Products that copying an element has to save."""


def is_product(shape: Geometry) -> bool:
    """Whether filters have one tap, that sees no zeros, and all channels."""
    window = shape.window
    plain = window.taps == (1, 1) and window.padding == (0, 0) and shape.groups == 1
    return plain and shape.behind in (None, (0, 0)) and shape.channels > 0


def merges(device: Device, shape: Geometry, layout: Layout) -> bool:
    """Whether it pays to copy images with channels first for a product of the pixels of all.

    Those of each alone leave edges of tiles without use, and those that strides meet are copied
    anyway. On an H200 512 to 2048 channels of 32 images of 7 x 7 took 0.71 of the time so, 160 to
    960 1.26, 512 to 1024 with stride 2 0.66.

    Parameters
    ----------
    device : Device
    shape : Geometry
        Of one tap.
    layout : {"NCHW", "NHWC"}
    """
    if layout == "NHWC" or shape.images == 1 or device.capabilities.lone_work_items:
        return False
    if shape.window.stride != (1, 1):
        return True
    places = prod(shape.result)
    left_over = -(-places // _TILE) * _TILE - places
    depth, filters = shape.channels, shape.filters
    return left_over * depth * filters > _COPIED * places * (depth + filters)


@dataclass(frozen=True)
class Product(Method):
    """One product of pixels by filters with channels last, one for each image with them first.

    Images that strides take apart, and others that are no matrices as they lie, are copied.
    """

    def filters(self, w: Any, turned: bool = False) -> Any:
        """Filters (C, K) with channels last, else (K, C)."""
        space, shape = self.device.namespace(), self.shape
        lying = (shape.channels, shape.filters) if turned else (shape.filters, shape.channels)
        matrix = space.reshape(w, lying)
        if (self.layout == "NHWC") == turned:
            return matrix
        room = self.device.empty((lying[1], lying[0]), self.kind)
        copy_into(space.permute_dims(matrix, (1, 0)), room)
        return room

    def workspace(self) -> tuple[int, int]:
        """Elements of workspace: the pixels that strides meet, or in aligned rows."""
        shape = self.shape
        if shape.window.stride == (1, 1) and not self._pays_to_align:
            return 0, 0
        return (shape.images * shape.channels * self._row,) * 2

    @cached_property
    def _pays_to_align(self) -> bool:
        """Whether pixels are copied to rows that vectors are copied from, for many filters.

        On an H200 160 to 960 channels of 32 images of 7 x 7 took 37.7 us from rows of 49.
        """
        shape, wide = self.shape, self.layout == "NCHW" and self.kind.itemsize > 2
        crowd = not self.device.capabilities.lone_work_items
        many = shape.images > 1 and shape.filters >= _MANY_FILTERS
        return wide and crowd and many and prod(shape.result) * self.kind.itemsize % ALIGNMENT > 0

    @property
    def _row(self) -> int:
        """Elements from one channel's pixels to the next one's, where they are copied."""
        places = prod(self.shape.result)
        each = ALIGNMENT // self.kind.itemsize if self._pays_to_align else 1
        return -(-places // each) * each

    def run(self, x: Any, filters: Any, out: Any, epilogue: Epilogue, workspace: Any) -> None:
        """Makes results."""
        space, bias, residual = self.device.namespace(), epilogue.bias, epilogue.residual
        pixels = self._pixels(x, workspace)
        target = out if in_c_order(self.device, out) else self.device.empty(out.shape, self.kind)
        given: dict[str, Any] = {"activation": epilogue.activation, "out": self.matrices(target)}
        if epilogue.activation is keep:
            given["activation"] = None
        given |= self._precision
        if residual is not None:
            given |= {"beta": 1.0, "c": self.matrices(residual)}
        if self.layout == "NHWC":
            factors = pixels, filters
        else:
            bias = None if bias is None else space.reshape(bias, (self.shape.filters, 1))
            factors = filters, pixels
        gemm(*factors, bias=bias, **given)
        if target is not out:
            copy_into(target, out)

    @property
    def _precision(self) -> dict[str, Any]:
        return {"precision": "tf32"} if self.split == "first" else {}

    def _pixels(self, x: Any, workspace: Any) -> Any:
        """The pixels that a stride meets as matrices."""
        if not self._pays_to_align:
            return self.matrices(self._gathered(x, workspace))
        shape, space = self.shape, self.device.namespace()
        extents = shape.images, shape.channels, self._row
        room = space.reshape(workspace[: prod(extents)], extents)[..., : prod(shape.result)]
        copy_into(self.matrices(self._gathered(x, None)), room)
        return room

    def _gathered(self, x: Any, workspace: Any) -> Any:
        """The pixels that a stride meets, in their layout."""
        met = self.met(x)
        if in_c_order(self.device, met):
            return met
        if workspace is None:
            room = self.device.empty(met.shape, self.kind)
        else:
            size = prod(met.shape)
            room = self.device.namespace().reshape(workspace[:size], tuple(met.shape))
        copy_into(met, room)
        return room

    def met(self, x: Any) -> Any:
        """The pixels that a stride meets."""
        down, across = self.shape.window.stride
        if (down, across) == (1, 1):
            return x
        return x[:, ::down, ::across] if self.layout == "NHWC" else x[:, :, ::down, ::across]

    def matrices(self, x: Any) -> Any:
        """Images as one matrix (pixels, channels), or one (channels, pixels) each."""
        if self.layout == "NHWC":
            extents: tuple[int, ...] = (prod(x.shape[:3]), x.shape[3])
        elif self.shape.images == 1:
            extents = x.shape[1], prod(x.shape[2:])
        else:
            extents = (*x.shape[:2], prod(x.shape[2:]))
        return self.device.namespace().reshape(x, extents)

    def sum_gradient(self, x: Any, dy: Any, dw: Any) -> None:
        """Makes the gradient by filters `dw` (K, C, 1, 1) of images and gradients."""
        space, shape = self.device.namespace(), self.shape
        pixels, slopes = self.matrices(self._gathered(x, None)), self.matrices(dy)
        images, lying = shape.images, (shape.filters, shape.channels)
        if self.layout == "NHWC":
            images, slopes = 1, space.permute_dims(slopes, (1, 0))
        else:
            pixels = space.permute_dims(pixels, (*range(pixels.ndim - 2), -1, -2))
        if images == 1 and in_c_order(self.device, dw):
            gemm(slopes, pixels, out=space.reshape(dw, lying), **self._precision)
            return
        each = self.device.empty((images, *lying), self.kind)
        target = each[0] if images == 1 else each
        gemm(slopes, pixels, out=target, **self._precision)
        add_up(self.device, space.reshape(each, (images, *lying, 1, 1)), dw)


class MergedProduct(Product):
    """One product of the pixels of all images, of copies with channels last."""

    @cached_property
    def merged(self) -> Product:
        """That product, of images without strides."""
        height, width = self.shape.result
        window = Window((1, 1), (1, 1), (0, 0), (1, 1))
        shape = replace(self.shape, height=height, width=width, window=window)
        return Product(self.device, shape, self.kind, "NHWC", self.choice, self.split)

    def filters(self, w: Any, turned: bool = False) -> Any:
        """Filters (C, K)."""
        return self.merged.filters(w, turned)

    def workspace(self) -> tuple[int, int]:
        """Elements of workspace: pixels and their results."""
        shape = self.shape
        return (shape.images * (shape.channels + shape.filters) * prod(shape.result),) * 2

    def run(self, x: Any, filters: Any, out: Any, epilogue: Epilogue, workspace: Any) -> None:
        """Makes results."""
        device, space, shape = self.device, self.device.namespace(), self.shape
        places = (shape.images, *shape.result)
        size = prod(places) * shape.channels
        pixels = space.reshape(workspace[:size], (*places, shape.channels))
        results = workspace[size : size + prod(places) * shape.filters]
        results = space.reshape(results, (*places, shape.filters))
        if shape.window.stride == (1, 1) and in_c_order(device, x):
            channels_last(device, x, pixels)
        else:
            copy_into(space.permute_dims(self.met(x), (0, 2, 3, 1)), pixels)
        if epilogue.residual is not None:
            copy_into(space.permute_dims(epilogue.residual, (0, 2, 3, 1)), results)
            epilogue = epilogue._replace(residual=results)
        self.merged.run(pixels, filters, results, epilogue, None)
        copy_into(results, space.permute_dims(out, (0, 2, 3, 1)))
