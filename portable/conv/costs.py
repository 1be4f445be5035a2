"""What ways of convolving cost, counted for a shape, by which "auto" chooses among them.

All count in multiplications or additions of a product by Winograd's method: 1.46e-14 s of an H200,
where what parts of numbers cost was fitted to 57 layers, by 0.25 at most from what they took.
"""

from __future__ import annotations

from math import prod
from typing import Final, NamedTuple

from portable.backend import Capabilities
from portable.conv.direct.boxes import blocks_of, products_of
from portable.conv.direct.parted import PART, pays
from portable.conv.geometry import Geometry
from portable.conv.tuning import adds_exactly, leaves_units_idle
from portable.dtypes import DType


class _Costs(NamedTuple):
    """What the model counts, in multiplications and additions of a product.

    Attributes
    ----------
    word : float
        As long as an element of a transformed tile takes to be written and read.
    made : float
        As long as it takes to be made, for each element of a tile.
    filter : float
        As long as an element of a transformed filter takes to be read.
    gathered : float
        As long as an operation takes in a product whose operand is gathered from images.
    lanes : int
        Tiles of which blocks are multiples.
    """

    word: float
    made: float
    filter: float
    gathered: float
    lanes: int


_DEDICATED: Final = _Costs(120.0, 0.0, 60.0, 2.7, 128)
"""Where local memory is storage of its own; measured on an H200."""

_CACHED: Final = _Costs(0.0, 1.8, 20.0, 1.35, 16)
"""Where it is cached memory; measured on two cores with vectors of 64 bytes."""

_EXACT: Final = 3.0
"""A multiplication and its addition where matrix units add no more than a few products up."""

_PRODUCT: Final = 0.81
"""A multiplication of parts of transformed tiles, and its addition; of pixels one and a share: as
long as `_EMPTY` filters more take."""

_EMPTY: Final = 64

_IN: Final = 300.0
_OUT: Final = 210.0
_FILTER: Final = 90.0
_PIXEL: Final = 360.0
"""What an element of tiles, of their products, of filters and of images takes with both parts."""

_BEGUN: Final = 1e8
"""What takes as long as further launches, and rings to be filled."""

_IDLE: Final = 3.0
"""How much longer products of parts take whose sums are cut for want of tiles: 2.7 to 3.7 times as
long for one image of 20 x 20 to 28 x 28."""

_BLOCK: Final = 128
"""Tiles, and filters, of which products of parts have multiples."""


def parted_costs_less(
    capabilities: Capabilities, shape: Geometry, kind: DType, results: int
) -> bool:
    """Whether products of parts make Winograd's method for m results of a tile take less time."""
    cost = parted_winograd_cost(capabilities, shape, kind, results)
    return cost < winograd_cost(capabilities, shape, results)


def direct_cost(capabilities: Capabilities, shape: Geometry, kind: DType, usual: bool) -> float:
    """Of the product, as it is gathered or, where it pays, in parts.

    Parameters
    ----------
    capabilities : Capabilities
        Of the device.
    shape : Geometry
    kind : DType
    usual : bool
        Whether numbers may be multiplied in parts.
    """
    places = shape.images * prod(shape.result)
    if not (usual and pays(capabilities, shape, kind)):
        by, each = _by(capabilities), shape.depth / shape.window.count * shape.filters
        if by is _DEDICATED and capabilities.matrix_units:
            each = products_of(shape, blocks_of(shape, kind, True))
        return by.gathered * 2.0 * each * shape.window.count * places
    places, pixels = -(-places // _EMPTY) * _EMPTY, prod((shape.images, shape.height, shape.width))
    idle = _IDLE if leaves_units_idle(capabilities, shape) else 1.0
    if shape.groups > 1:
        depth, each, read = 1, products_of(shape, blocks_of(shape, kind, True)), 0.0
    else:
        depth, each = -(-shape.channels // PART) * PART, shape.filters + _EMPTY
        read = _FILTER * shape.filters
    products = shape.window.count * depth * (idle * each * places + read)
    return idle * _BEGUN + products + _PIXEL * pixels * shape.channels


def winograd_cost(capabilities: Capabilities, shape: Geometry, results: int) -> float:
    """Of products, of transformed tiles and results, and of reading transformed filters."""
    by = _by(capabilities)
    tiles = -(-_tiles(shape, results) // by.lanes) * by.lanes
    filters = float(shape.channels // shape.groups * shape.filters)
    elements = (results + shape.window.taps[0] - 1) ** 2
    words = (by.word + by.made * elements) * tiles * (shape.channels + shape.filters)
    product = _EXACT if by is _DEDICATED and adds_exactly(capabilities, shape) else 2.0
    return elements * (product * tiles * filters + words + by.filter * filters)


def parted_winograd_cost(
    capabilities: Capabilities, shape: Geometry, kind: DType, results: int
) -> float:
    """The same of products of parts; infinite where there are none."""
    if shape.groups > 1 or not pays(capabilities, shape, kind):
        return float("inf")
    tiles, filters = (-(-n // _BLOCK) * _BLOCK for n in (_tiles(shape, results), shape.filters))
    elements = (results + shape.window.taps[0] - 1) ** 2
    channels = -(-shape.channels // PART) * PART
    words = tiles * (_IN * channels + _OUT * shape.filters)
    return _BEGUN + elements * (channels * filters * (_PRODUCT * tiles + _FILTER) + words)


def _by(capabilities: Capabilities) -> _Costs:
    return _DEDICATED if capabilities.local_memory_dedicated else _CACHED


def _tiles(shape: Geometry, results: int) -> int:
    height, width = shape.result
    return shape.images * -(-height // results) * -(-width // results)
