"""Convolution of one tap as the product of matrices that it is."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Final

from portable.conv.direct.adding import add_up
from portable.conv.geometry import Geometry
from portable.conv.layouts import in_c_order
from portable.conv.method import Epilogue, Method
from portable.linalg.products.gemm import gemm
from portable.linalg.products.kernels import keep
from portable.linalg.products.rows import copy_into

_ROW: Final = 16
"""Of what rows of filters are multiples, which `gemm` would copy at each call."""


def is_product(shape: Geometry) -> bool:
    """Whether filters have one tap, that sees no zeros, and all channels."""
    window = shape.window
    plain = window.taps == (1, 1) and window.padding == (0, 0) and shape.groups == 1
    return plain and shape.behind in (None, (0, 0)) and shape.channels > 0


@dataclass(frozen=True)
class Product(Method):
    """One product of pixels by filters with channels last, one for each image with them first.

    Of several groups one each. Images that strides take apart, and others that are no matrices as
    they lie, are copied.
    """

    def filters(self, w: Any, turned: bool = False) -> Any:
        """Filters (C, K) with channels last, else (K, C), those of each group."""
        space, shape, groups = self.device.namespace(), self.shape, self._groups
        each = shape.filters // shape.groups, shape.channels // shape.groups
        lying = each[::-1] if turned else each
        matrix = space.reshape(w, (*groups, *lying))
        if (self.layout == "NHWC") == turned:
            return matrix
        row = -(-lying[0] // _ROW) * _ROW
        room = self.device.empty((*groups, lying[1], row), self.kind)[..., : lying[0]]
        copy_into(space.permute_dims(matrix, (0, 2, 1) if groups else (1, 0)), room)
        return room

    @property
    def _groups(self) -> tuple[int, ...]:
        """The extent along which matrices of several groups lie."""
        return () if self.shape.groups == 1 else (self.shape.groups,)

    def workspace(self) -> tuple[int, int]:
        """Elements of workspace: the pixels that strides meet."""
        shape = self.shape
        if shape.window.stride == (1, 1):
            return 0, 0
        return (shape.images * shape.channels * prod(shape.result),) * 2

    def run(self, x: Any, filters: Any, out: Any, epilogue: Epilogue, workspace: Any) -> None:
        """Makes results."""
        space, bias, residual = self.device.namespace(), epilogue.bias, epilogue.residual
        pixels = self.matrices(self._gathered(x, workspace))
        target = out if in_c_order(self.device, out) else self.device.empty(out.shape, self.kind)
        given: dict[str, Any] = {"activation": epilogue.activation, "out": self.matrices(target)}
        if epilogue.activation is keep:
            given["activation"] = None
        given |= self._precision
        if residual is not None:
            given |= {"beta": 1.0, "c": self.matrices(residual)}
        if self.layout == "NHWC":
            factors, line = (pixels, filters), (1, self.shape.filters // self.shape.groups)
        else:
            factors, line = (filters, pixels), (self.shape.filters // self.shape.groups, 1)
        bias = None if bias is None else space.reshape(bias, (*self._groups, *line))
        gemm(*factors, bias=bias, **given)
        if target is not out:
            copy_into(target, out)

    @property
    def _precision(self) -> dict[str, Any]:
        return {"precision": "tf32"} if self.split == "first" else {}

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
        """Images as one matrix (pixels, channels), or one (channels, pixels) each, of groups."""
        space, groups = self.device.namespace(), self._groups
        if self.layout == "NHWC":
            rows = space.reshape(x, (prod(x.shape[:3]), *groups, x.shape[3] // self.shape.groups))
            return space.permute_dims(rows, (1, 0, 2)) if groups else rows
        images = () if self.shape.images == 1 else (self.shape.images,)
        extents = *images, *groups, x.shape[1] // self.shape.groups, prod(x.shape[2:])
        return space.reshape(x, extents)

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
