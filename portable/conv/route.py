"""Which algorithm a convolution takes, made ready for a device and a shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import inf, prod
from typing import Any, Final, NamedTuple, cast

from portable.backend import Capabilities, Device
from portable.conv.costs import (
    direct_cost,
    parted_costs_less,
    parted_winograd_cost,
    winograd_cost,
)
from portable.conv.direct.boxes import Boxes, boxes, by_matrix_units
from portable.conv.direct.depthwise import Depthwise, is_depthwise
from portable.conv.direct.grouped import Grouped, has_few_channels, is_first_layer
from portable.conv.direct.lanes import Lanes
from portable.conv.direct.parted import parted
from portable.conv.direct.product import Product, is_product
from portable.conv.direct.windows import FewFilters, has_few_filters, product_of_filters
from portable.conv.geometry import Geometry, Layout, suits_winograd
from portable.conv.method import Method, Split, most_workspace
from portable.conv.settings import Algorithm, Precision
from portable.conv.tuning import best_known, leaves_units_idle
from portable.conv.vendor import Vendor
from portable.conv.winograd.blocks import WinogradBlocks
from portable.conv.winograd.winograd import PartedWinograd, Winograd
from portable.dtypes import DType, float32
from portable.errors import DTypeError, UnsupportedError
from portable.tune.space import Parameters
from portable.tune.table import state
from portable.tune.ways import Way, Ways

_TILES: Final = (2, 3, 4)
"""Results of Winograd's tiles along a dimension, whose errors of unit-normal numbers are within 4
times those of a sum in single precision, term after term."""

_MOST_WIDE: Final = 2
"""The most results of tiles for filters wider than 3 x 3: of 5 x 5, tiles of 2 x 2 had 0.5 to 0.9
of a direct sum's errors on an H200, those of 4 x 4 up to 6.7 times (320 channels, 8 filters)."""

_UNCUT: Final = 32 * 32
_MOST_BESIDE_PARTS: Final = 2
"""The same of 3 x 3 where direct sums are cut into parts, as they are of fewer results for each
unit: of 64 to 640 channels F(2 x 2) had 1 to 2 times the errors of such sums in the simulator, as
an H200 adds them up, F(3 x 3) and F(4 x 4) 3 to 8 times."""

_ACCURATE: Final = ("direct", *(f"winograd{results}" for results in _TILES))


def chosen(
    algorithm: Algorithm,
    capabilities: Capabilities,
    shape: Geometry,
    kind: DType,
    weights: bool = False,
    layout: Layout = "NCHW",
    usual: bool = False,
) -> Algorithm:
    """The algorithm itself; for "auto" the table's, or where it has none that of a model.

    Parameters
    ----------
    algorithm : str
        What was asked for.
    capabilities : Capabilities
        Of the device.
    shape : Geometry
        Of the convolution.
    kind : DType
        Of its arrays.
    weights : bool
        Whether its gradient by filters is wanted.
    layout : {"NCHW", "NHWC"}
    usual : bool
        Whether numbers may be multiplied in parts.

    Raises
    ------
    UnsupportedError
        If Winograd's is asked for a window that it does not take (`suits_winograd`).
    """
    if algorithm == "auto":
        known = best_known(capabilities, kind, shape, state(), weights)
        if known in _ACCURATE:
            return cast(Algorithm, known)
        few = is_first_layer(shape) or (usual and kind is float32 and has_few_filters(shape))
        if layout == "NCHW" and not weights and few and not capabilities.single_work_items:
            return "direct"
        return _best(capabilities, shape, kind, usual)
    if algorithm.startswith("winograd") and not suits_winograd(shape, int(algorithm[-1])):
        window = shape.window
        raise UnsupportedError(
            f"algorithm={algorithm!r} takes filters of 3 x 3, up to winograd4 5 x 5 and winograd2 "
            "7 x 7, with stride 1 and dilation 1, zeros behind images only where some are before "
            f"them, not {window.taps[0]} x "
            f"{window.taps[1]} with stride {window.stride}, dilation {window.dilation} and padding "
            f'{window.padding}, {shape.behind or window.padding}; use "direct" or "auto"'
        )
    return algorithm


def _best(capabilities: Capabilities, shape: Geometry, kind: DType, usual: bool) -> Algorithm:
    """Half precision goes direct, since matrix units gain more than fewer products do.

    So do few channels a group, which are bound by memory, and few results of 7 x 7 taps: direct
    sums that are cut into parts had 0.08 of the errors of F(2 x 2).
    """
    few = has_few_channels(shape, not capabilities.single_work_items)
    widest = shape.window.taps == (7, 7) and leaves_units_idle(capabilities, shape)
    if kind.itemsize == 2 or few or widest or not suits_winograd(shape):
        return "direct"
    costs: dict[Algorithm, float] = {"direct": direct_cost(capabilities, shape, kind, usual)}
    most = max(_TILES) if shape.window.taps == (3, 3) else _MOST_WIDE
    cut = usual and leaves_units_idle(capabilities, shape, _UNCUT)
    for results in (n for n in _TILES if n <= most and suits_winograd(shape, n)):
        cost, parted_cost = winograd_cost(capabilities, shape, results), inf
        if usual:
            parted_cost = parted_winograd_cost(capabilities, shape, kind, results)
        accurate = results <= _MOST_BESIDE_PARTS or capabilities.single_work_items or not cut
        if accurate or parted_cost < cost:
            costs[cast(Algorithm, f"winograd{results}")] = min(cost, parted_cost)
    return min(costs, key=costs.__getitem__)


_FEW_FILTERS: Final = 64
"""Up to which boxes take less time than a product: 26 us instead of 34 for 256 channels of 32
images of 56 x 56 on an H200."""

_SEVERAL: Final = 224
_MANY_CHANNELS: Final = 128
_MANY_PLACES: Final = 4096
"""Of several filters, of which products leave a quarter of their tiles empty: 240 channels of 4
images of 56 x 56 to 152 took 6.8 us instead of 12.8; 72 of 112 x 112 to 144 109 instead of 99."""

_FEWEST_SPLIT: Final = 32
"""Channels from which on matrix units multiply single precision by parts: 3 x 3 with stride 2 of
128 channels took 0.93, of 320 0.65 of the time so on an H200; 7 x 7 of 3 channels took 1.03."""


_FEWEST_OF_A_GROUP: Final = 8
"""Channels and filters of a group from which on one tap is a product of matrices for each: of 20 to
128 channels it took 0.3 to 0.7 of the time of boxes so on an H200 in single precision."""

_FEWEST_IN_BLOCKS: Final = 4
"""Channels of a group from which on matrix units multiply halves, several groups in a tile: 3 x 3
of 8 took 0.5 of the time so on an H200, of 4 about as long."""


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
    split, usual = _split_of(shape, precision), precision == "usual" and not weights
    algorithm = chosen(asked, device.capabilities, shape, kind, weights, layout, usual)
    method = method_of(device, shape, kind, layout, algorithm, split=split, usual=usual)
    return Route(algorithm, method)


def _split_of(shape: Geometry, precision: Precision) -> Split:
    """How matrix units, where there are some, multiply single precision.

    For "full" they do not, nor do groups see other groups' channels, times zero.
    """
    if precision == "tf32":
        return "first"
    pays = shape.channels >= _FEWEST_SPLIT and (shape.window.count > 1 or shape.groups > 1)
    return "exact" if precision == "usual" and pays else False


def method_of(
    device: Device,
    shape: Geometry,
    kind: DType,
    layout: Layout,
    algorithm: Algorithm,
    choice: Parameters | None = None,
    split: Split = False,
    usual: bool = False,
) -> Method:
    """The method of an algorithm.

    Parameters
    ----------
    device, shape, kind, layout, choice, split
        As of `Method`.
    algorithm : str
        Any but "auto".
    usual : bool
        Whether numbers may be multiplied in parts wherever it pays.
    """
    return CONVOLUTIONS.first(Asked(device, shape, kind, layout, algorithm, choice, split, usual))


class Asked(NamedTuple):
    """What is asked of the ways of a convolution: the arguments of `method_of`."""

    device: Device
    shape: Geometry
    kind: DType
    layout: Layout
    algorithm: Algorithm
    choice: Parameters | None
    split: Split
    usual: bool

    @property
    def alone(self) -> bool:
        """Whether work-items have a processor's core to themselves."""
        return self.device.capabilities.single_work_items

    @property
    def wide(self) -> bool:
        """Whether no matrix units multiply what lies with channels first as it is."""
        usual = self.layout == "NCHW" and self.choice is None and self.split != "first"
        return (
            usual and self.kind.itemsize > 2 and 0 not in (self.shape.channels, self.shape.images)
        )

    @property
    def flat(self) -> bool:
        """Whether it is a product of matrices, of which images are one nearly as they lie."""
        shape = self.shape
        if self.choice is not None or not is_product(replace(shape, groups=1)):
            return False
        if shape.groups > 1:
            deep = min(shape.channels, shape.filters) // shape.groups >= _FEWEST_OF_A_GROUP
            return deep and self.wide and not self.alone
        plain = shape.window.stride == (1, 1) or self.layout == "NCHW"
        return plain and (self.layout == "NHWC" or not self.alone)


def _is_first(x: Asked) -> bool:
    """Whether a first layer goes by work-items."""
    if x.alone or x.choice is not None or 0 in (x.shape.channels, x.shape.images):
        return False
    halves = x.kind.itemsize == 2 and x.layout == "NHWC"
    return (x.wide or halves) and is_first_layer(x.shape, halves)


def _is_grouped(x: Asked) -> bool:
    if _is_first(x):
        return True
    if not x.shape.channels:
        return True
    ours = not x.flat and (x.layout == "NHWC" or not x.alone)
    if not ours or not has_few_channels(x.shape, not x.alone):
        return False
    few = x.shape.channels < _FEWEST_IN_BLOCKS * x.shape.groups or x.kind.itemsize > 2
    return few or boxes(x.device, x.shape, x.kind, x.layout, x.choice, x.split) is None


def _suits_thin_boxes(shape: Geometry) -> bool:
    """Whether tiles of boxes hold filters better than those of products do."""
    filters, places = shape.filters, shape.images * prod(shape.result)
    some = filters <= _SEVERAL and 0 < filters % _FEW_FILTERS <= _FEW_FILTERS // 2
    crowd = shape.channels >= _MANY_CHANNELS and places >= _MANY_PLACES
    return filters <= _FEW_FILTERS or (some and crowd)


def _thin(x: Asked) -> Iterator[Boxes]:
    if by_matrix_units(x.device, x.kind, x.split):
        yield from (tiles for tiles in _in_boxes(x) if not tiles.rows)


def _by_windows(x: Asked) -> Iterator[Method]:
    seen = product_of_filters(x.shape, x.kind)
    product = method_of(x.device, seen, x.kind, x.layout, "direct", usual=True)
    method = FewFilters(*x[:4], product=product)
    if method.workspace()[0] * x.kind.itemsize <= most_workspace(x.device):
        yield method


def _in_parts(x: Asked) -> Iterator[Boxes]:
    method = parted(x.device, x.shape, x.kind, x.layout)
    if method and not _is_first(x):
        yield method


def _in_boxes(x: Asked) -> Iterator[Boxes]:
    tiles = boxes(x.device, x.shape, x.kind, x.layout, x.choice, x.split)
    if tiles:
        yield tiles
    else:  # whose groups share no tile, and whose images are copied
        yield Boxes(*x[:4], x.choice, False, patches=False, rows=x.layout == "NCHW")


def _by_winograd(x: Asked) -> Iterator[Method]:
    results = int(x.algorithm[-1])
    if x.alone and x.layout == "NCHW":
        yield WinogradBlocks(*x[:4], x.choice, results=results)
        return
    can = x.device.capabilities
    if x.usual and x.choice is None and parted_costs_less(can, x.shape, x.kind, results):
        yield PartedWinograd(*x[:4], results=results)
    yield Winograd(*x[:4], results=results)


def _one(method: type[Method]) -> Callable[[Asked], Iterator[Method]]:
    return lambda x: iter((method(*x[:4], x.choice, x.split),))


CONVOLUTIONS: Final = Ways[Asked, Method](
    "convolution",
    Way("vendor", "", _one(Vendor), lambda x: x.algorithm == "vendor"),
    Way(
        "winograd",
        "pack_filters convolve_blocks transform_filters transform_images part_filters "
        "gemm_tiles transform_results",
        _by_winograd,
        lambda x: x.algorithm.startswith("winograd"),
    ),
    Way(
        "windows of few filters",
        "arrange_filters add_windows",
        _by_windows,
        lambda x: x.usual and x.wide and not x.alone and has_few_filters(x.shape),
    ),
    Way(
        "parts of numbers",
        "part_pixels arrange_filters part_filters multiply_boxes add_parts",
        _in_parts,
        lambda x: x.usual and x.choice is None,
    ),
    Way(
        "channels of a filter each",
        "arrange_filters convolve_channels",
        _one(Depthwise),
        lambda x: x.alone and x.choice is None and is_depthwise(x.device, x.shape, x.kind),
    ),
    Way("grouped", "arrange_filters convolve_groups", _one(Grouped), _is_grouped),
    Way(
        "thin boxes",
        "arrange_along_channels arrange_filters multiply_boxes",
        _thin,
        lambda x: x.flat and x.layout == "NHWC" and _suits_thin_boxes(x.shape),
    ),
    Way("product", "", _one(Product), lambda x: x.flat),
    Way(
        "lanes of pixels",
        "pack_lane_filters convolve_rows",
        _one(Lanes),
        lambda x: x.alone and x.choice is None and x.shape.channels > 0,
    ),
    Way(
        "boxes",
        "arrange_along_channels arrange_filters gather_patches multiply_boxes add_parts",
        _in_boxes,
    ),
)
"""How images are convolved with filters."""
