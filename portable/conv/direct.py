"""Launches of products that are gathered from images."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from portable.backend import Device
from portable.conv.direct_kernels import FilterGradient, ImageGradient, Results, gathered_product
from portable.conv.geometry import Geometry
from portable.dtypes import dtype, float16
from portable.lang.function import Function
from portable.lang.geometry import groups
from portable.linalg.gemm_kernels import keep
from portable.linalg.gemm_tuning import candidates, multiplying
from portable.tune.fallback import first_accepted
from portable.tune.space import Parameters

__all__ = ["filter_gradient", "image_gradient", "parts", "results"]

_ENOUGH: Final = 2
"""Tiles for each compute unit above which the images of a gradient are not cut further."""

_TILE: Final = 64
"""About the edge of a tile."""


def results(
    device: Device, shape: Geometry, x: Any, w: Any, out: Any, bias: Any, activation: Function
) -> None:
    """Makes results of images and filters, all seen as (N, C, H, W)."""
    extents = (shape.filters // shape.groups, prod(shape.result))
    _launch(device, shape, Results, (x, w, out, bias), extents, shape.images, activation)


def image_gradient(device: Device, shape: Geometry, dy: Any, w: Any, out: Any) -> None:
    """Makes the gradient by the images from that by the results."""
    extents = (shape.channels // shape.groups, shape.height * shape.width)
    _launch(device, shape, ImageGradient, (dy, w, out, None), extents, shape.images, keep)


def filter_gradient(device: Device, shape: Geometry, x: Any, dy: Any, out: Any) -> None:
    """Makes parts (S, K, C / groups, R, S) of the gradient by the filters."""
    extents = (shape.filters // shape.groups, shape.depth)
    _launch(device, shape, FilterGradient, (x, dy, out, None), extents, int(out.shape[0]), keep)


def parts(device: Device, shape: Geometry) -> int:
    """Into how many parts of its images a gradient by filters is cut, to have all units at work."""
    rows, columns = shape.filters // shape.groups, shape.depth
    tiles = -(-rows // _TILE) * -(-columns // _TILE) * shape.groups
    wanted = -(-_ENOUGH * device.capabilities.compute_units // tiles)
    images = -(-shape.images // max(1, min(shape.images, wanted)))
    return -(-shape.images // images)


def _launch(
    device: Device,
    shape: Geometry,
    product: Any,
    arrays: tuple[Any, Any, Any, Any],
    extents: tuple[int, int],
    batch: int,
    activation: Function,
) -> None:
    """A workgroup for each tile of each of ``batch * groups`` matrices."""
    kind = dtype(arrays[0].dtype)
    count = batch * shape.groups

    def use(choice: Parameters) -> None:
        tiles = -(-extents[0] // choice["BM"]) * -(-extents[1] // choice["BN"])
        sizes = {name: choice[name] for name in ("BM", "BN", "BK", "GROUP", "UNITS")}
        gathered_product[groups(tiles * count), (multiplying(choice), 1, 1)](
            *arrays,
            PRODUCT=product,
            WINDOW=shape.window,
            GROUPS=shape.groups,
            ACC=kind.register,
            ACTIVATION=activation,
            **sizes,
        )

    rung = "auto" if kind is float16 else "register"
    first_accepted(candidates(device, kind, rung, (*extents, count)), use)
