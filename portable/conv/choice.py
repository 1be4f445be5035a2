"""Which algorithm suits a convolution."""

from __future__ import annotations

from math import prod
from typing import Final, NamedTuple, cast

from portable.backend import Capabilities
from portable.conv.direct.grouped import has_few_channels
from portable.conv.geometry import Geometry, suits_winograd
from portable.conv.settings import Algorithm
from portable.conv.tuning import best_known
from portable.dtypes import DType
from portable.errors import UnsupportedError
from portable.tune.table import state


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


_DEDICATED: Final = _Costs(120.0, 0.0, 60.0, 2.7, 1)
"""Where local memory is storage of its own; measured on an H200."""

_CACHED: Final = _Costs(0.0, 1.8, 20.0, 1.35, 16)
"""Where it is cached memory; measured on two cores with vectors of 64 bytes."""

_TILES: Final = (2, 3, 4)
"""Results of Winograd's tiles along a dimension, whose errors of unit-normal numbers are within 4
times those of a sum in single precision, term after term."""

_MOST_WIDE: Final = 2
"""The most results of tiles for filters wider than 3 x 3: of 5 x 5, tiles of 2 x 2 had 0.5 to 0.9
of a direct sum's errors on an H200, those of 4 x 4 up to 6.7 times (320 channels, 8 filters)."""

_ACCURATE: Final = ("direct", *(f"winograd{results}" for results in _TILES))


def chosen(
    algorithm: Algorithm,
    capabilities: Capabilities,
    shape: Geometry,
    kind: DType,
    weights: bool = False,
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

    Raises
    ------
    UnsupportedError
        If Winograd's is asked for a window that it does not take (`suits_winograd`).
    """
    if algorithm == "auto":
        known = best_known(capabilities, kind, shape, state(), weights)
        return cast(Algorithm, known) if known in _ACCURATE else _best(capabilities, shape, kind)
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


def _best(capabilities: Capabilities, shape: Geometry, kind: DType) -> Algorithm:
    """Half precision goes direct, since matrix units gain more than fewer products do.

    So do few channels a group, which are bound by memory.
    """
    few = has_few_channels(shape, not capabilities.lone_work_items)
    if kind.itemsize == 2 or few or not suits_winograd(shape):
        return "direct"
    by = _DEDICATED if capabilities.local_memory_dedicated else _CACHED
    costs: dict[Algorithm, float] = {"direct": _direct_cost(shape, by)}
    most = max(_TILES) if shape.window.taps == (3, 3) else _MOST_WIDE
    for results in (n for n in _TILES if n <= most and suits_winograd(shape, n)):
        costs[cast(Algorithm, f"winograd{results}")] = _winograd_cost(shape, results, by)
    return min(costs, key=costs.__getitem__)


def _direct_cost(shape: Geometry, by: _Costs) -> float:
    places = shape.images * prod(shape.result)
    return by.gathered * 2.0 * shape.depth * shape.filters * places


def _winograd_cost(shape: Geometry, results: int, by: _Costs) -> float:
    """Of products, of transformed tiles and results, and of reading transformed filters."""
    height, width = shape.result
    tiles = shape.images * -(-height // results) * -(-width // results)
    tiles = -(-tiles // by.lanes) * by.lanes
    filters = float(shape.channels // shape.groups * shape.filters)
    elements = (results + shape.window.taps[0] - 1) ** 2
    words = (by.word + by.made * elements) * tiles * (shape.channels + shape.filters)
    return elements * (2 * tiles * filters + words + by.filter * filters)
