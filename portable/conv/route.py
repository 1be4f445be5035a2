"""The way that a convolution takes: its algorithm, made ready for a device and a shape."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

from portable.backend import Device
from portable.conv.choice import chosen
from portable.conv.direct.boxes import boxes, by_matrix_units
from portable.conv.direct.direct import Gathered
from portable.conv.direct.grouped import Grouped, has_few_channels
from portable.conv.direct.lanes import Lanes
from portable.conv.direct.product import Product, is_product
from portable.conv.geometry import Geometry, Layout
from portable.conv.method import Method, Split
from portable.conv.settings import Algorithm, Precision
from portable.conv.vendor import Vendor
from portable.conv.winograd.blocks import WinogradBlocks
from portable.conv.winograd.winograd import Winograd
from portable.dtypes import DType, float32
from portable.errors import DTypeError
from portable.tune.space import Parameters

__all__ = ["Route", "method_of", "route"]


_FEW_FILTERS: Final = 64
"""Up to which boxes take less time than a product: 26 us instead of 34 for 256 channels of 32
images of 56 x 56 on an H200."""

_FEWEST_SPLIT: Final = 32
"""Channels from which on matrix units multiply single precision by parts: 3 x 3 with stride 2 of
128 channels took 0.93, of 320 0.65 of the time so on an H200; 7 x 7 of 3 channels took 1.03."""


@dataclass(frozen=True)
class Route:
    """What depends on device, shapes, dtype and settings alone.

    Attributes
    ----------
    algorithm : str
        What was chosen.
    method : Method
    """

    algorithm: Algorithm
    method: Method

    @cached_property
    def result_shape(self) -> tuple[int, ...]:
        """Of the results, in their layout."""
        shape = self.method.shape
        return self._laid_out(shape.images, shape.filters, *shape.result)

    @cached_property
    def image_shape(self) -> tuple[int, ...]:
        """Of the images, in their layout."""
        shape = self.method.shape
        return self._laid_out(shape.images, shape.channels, shape.height, shape.width)

    def _laid_out(self, n: int, c: int, h: int, w: int) -> tuple[int, ...]:
        return (n, c, h, w) if self.method.layout == "NCHW" else (n, h, w, c)

    def new_workspace(self) -> Any:
        """All the workspace that is of use; None where none is."""
        wanted, _ = self.method.workspace()
        kind = self.method.workspace_kind
        return self.method.device.empty((wanted,), kind) if wanted else None


@lru_cache(maxsize=1024)
def route(
    device: Device,
    shape: Geometry,
    kind: DType,
    layout: Layout,
    asked: Algorithm,
    table: object,
    weights: bool = False,
    precision: Precision = "usual",
) -> Route:
    """The way of a convolution.

    Parameters
    ----------
    device : Device
        Where it is to run.
    shape : Geometry
        Of the convolution.
    kind : DType
        Of all arrays.
    layout : {"NCHW", "NHWC"}
        Of images and results.
    asked : str
        The algorithm, or "auto".
    table : object
        The state of the user's table of tuned parameters.
    weights : bool
        Whether the gradient by filters of the convolution is wanted.
    precision : {"usual", "full", "tf32"}

    Raises
    ------
    UnsupportedError
        For an algorithm that cannot do the shape.
    DTypeError
        For "tf32" of other than single precision.
    """
    if precision == "tf32" and kind is not float32:
        raise DTypeError(f'precision="tf32" is for float32, not {kind.name}')
    algorithm = chosen(asked, device.capabilities, shape, kind, weights)
    split = _split_of(shape, precision)
    return Route(algorithm, method_of(device, shape, kind, layout, algorithm, split=split))


def _split_of(shape: Geometry, precision: Precision) -> Split:
    """How matrix units, where there are some, multiply single precision."""
    if precision == "tf32":
        return "first"
    pays = shape.channels >= _FEWEST_SPLIT and shape.window.count > 1
    return "exact" if precision == "usual" and pays else False


def method_of(
    device: Device,
    shape: Geometry,
    kind: DType,
    layout: Layout,
    algorithm: Algorithm,
    choice: Parameters | None = None,
    split: Split = False,
) -> Method:
    """The method of an algorithm.

    Parameters
    ----------
    device, shape, kind, layout, choice, split
        As of `Method`.
    algorithm : str
        Any but "auto".
    """
    if algorithm == "vendor":
        return Vendor(device, shape, kind, layout)
    if algorithm == "direct":
        alone = device.capabilities.lone_work_items
        if has_few_channels(shape) and (layout == "NHWC" or not alone):
            return Grouped(device, shape, kind, layout)
        flat = shape.window.stride == (1, 1) or layout == "NCHW"
        if is_product(shape) and flat and (layout == "NHWC" or not alone) and choice is None:
            thin = None
            if layout == "NHWC" and shape.filters <= _FEW_FILTERS:
                thin = boxes(device, shape, kind, layout, split=split)
            by_units = thin is not None and by_matrix_units(device, kind, split) and not thin.rows
            return thin if thin and by_units else Product(device, shape, kind, layout, None, split)
        if alone and choice is None and shape.channels:
            return Lanes(device, shape, kind, layout)
        found = boxes(device, shape, kind, layout, choice, split)
        return found or Gathered(device, shape, kind, layout, choice, split)
    alone = device.capabilities.lone_work_items and layout == "NCHW"
    winograd = WinogradBlocks if alone else Winograd
    return winograd(device, shape, kind, layout, choice, results=int(algorithm[-1]))
