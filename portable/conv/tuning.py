"""What may be tuned of convolutions, and which choices one tries."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, Final

from portable.backend import Capabilities
from portable.conv.geometry import Geometry, suits_winograd
from portable.dtypes import DType, float16, float32
from portable.linalg.products.tuning import SPACE as GEMM
from portable.linalg.products.tuning import SPACE_TF32 as TF32
from portable.linalg.products.tuning import tiles_like
from portable.tune.space import Parameters, Space
from portable.tune.table import lookup

_STEP: Final = 0.15
"""What each place further down in the table counts for: smaller tiles read more."""

_TILES: Final = (16, 32, 64)
"""Of a block of Winograd's method where work-items are alone."""

_PLAIN: Final = {2: 8.0, 4: 2.5}
"""What products cost without matrix units beside those with them, by bytes of a factor."""

_SHAPE: Final = ("C", "H", "W", "K", "N")
"""Channels, height, width, filters and images of the shape that an entry is for; 0 for all."""

_MOST_INEXACT: Final = 512
"""Channels up to which sums of matrix units are accurate enough."""

_PRODUCTS_A_CYCLE: Final = 32
_CYCLES_A_ROW: Final = 3.0
_ROWS_A_CYCLE: Final = 30.0
"""Fitted to strided 3 x 3 of 48 to 392 channels on an H200: the tiles that come first took at most
1.05 times as long as the best of six."""

_FEWEST_COLUMNS: Final = 16
_MOST_ROWS: Final = 256
"""Of tiles that work-items multiply without matrix units."""

_RESULTS: Final = 128 * 128
"""Of a tile; of fewer for each unit, direct sums are cut into parts, whose errors are less."""

_PARTED: Final[tuple[Parameters, ...]] = tuple(
    {
        "BM": rows,
        "BN": columns,
        "BK": 64,
        "STAGES": stages,
        "WORKGROUP": items,
        "RESIDENT": resident,
        "UNITS": True,
        "SPECIALISED": True,
        "C": 0,
    }
    for rows, columns, stages, items, resident in (
        (128, 128, 3, 384, 1),
        (128, 64, 4, 384, 1),
        (64, 128, 4, 288, 0),
        (64, 64, 3, 160, 0),
    )
)
"""Tiles whose sums work-items hold twice, those of a step beside those of all."""


_VALUES: Final = {
    "ALGORITHM": ("direct", *(f"winograd{results}" for results in range(2, 7))),
    "T": (16, 32, 64, 128),
    "BM": GEMM.values["BM"],
    "BN": (16, *GEMM.values["BN"]),
    "BK": GEMM.values["BK"],
    "STAGES": GEMM.values["STAGES"],
    "SPECIALISED": (False, True),
    "WORKGROUP": GEMM.values["WORKGROUP"],
    "UNITS": (False, True),
}

_UNUSED: Final = {
    "T": 32,
    "BM": 64,
    "BN": 64,
    "BK": 16,
    "STAGES": 1,
    "SPECIALISED": False,
    "WORKGROUP": 64,
    "UNITS": False,
}
"""Parameters that are no matter of an algorithm: tiles of Winograd's products are those of gemm."""


def _fits(choice: Parameters, dtype: DType, capabilities: Capabilities) -> bool:
    if choice["ALGORITHM"] == "direct":
        return choice["T"] == _UNUSED["T"] and GEMM.fits(choice, dtype, capabilities)
    blocks = capabilities.single_work_items or choice["T"] == _UNUSED["T"]
    return blocks and all(choice[name] == _UNUSED[name] for name in _UNUSED if name != "T")


_LEFT_OUT: Final = {**_UNUSED, "RESIDENT": 0, **dict.fromkeys(_SHAPE, 0)}

SPACE: Final = Space("conv", _VALUES, _fits, _LEFT_OUT)
"""The algorithm, for a shape the fastest one; tiles of direct products.

Where work-items are alone, images with channels first are convolved by Winograd's method in blocks
of ``T`` tiles.
"""

SPACE_WEIGHTS: Final = Space("conv_weights", _VALUES, _fits, _LEFT_OUT)
"""For gradients by filters, of which the columns are channels; after it comes the table of `SPACE`.
"""


def entry_of(shape: tuple[int, ...], choice: Parameters) -> Parameters:
    """The table's entry for a shape (C, H, W, K, N)."""
    return {**choice, **dict(zip(_SHAPE, shape, strict=True))}


def adds_exactly(capabilities: Capabilities, shape: Geometry) -> bool:
    """Whether matrix units would add up more than a few products of Winograd's method.

    They round towards zero: F(4 x 4) had 1.7 to 2.6 times the errors of direct sums on an H200, of
    more than 512 channels or beside sums of few results, which are cut into parts, up to 6 times.
    """
    deep = shape.channels // shape.groups > _MOST_INEXACT
    return leaves_units_idle(capabilities, shape) or deep or shape.window.taps != (3, 3)


def leaves_units_idle(capabilities: Capabilities, shape: Geometry) -> bool:
    """Whether results are fewer tiles than there are compute units."""
    results = shape.images * prod(shape.result) * shape.filters
    return results < capabilities.compute_units * _RESULTS


def best_known(
    capabilities: Capabilities, dtype: DType, shape: Geometry, table: Any, weights: bool
) -> str | None:
    """The algorithm that the table lists for just this shape; None where it lists none.

    Parameters
    ----------
    capabilities, dtype, shape, table
        As of `tiles_of_blocks`.
    weights : bool
        Whether the table is that of gradients by filters.
    """
    known = _listed(capabilities, dtype, shape, table, weights)
    return next((choice["ALGORITHM"] for choice in known if choice["C"]), None)


def tiles_of_blocks(
    capabilities: Capabilities, dtype: DType, shape: Geometry, table: Any
) -> tuple[int, ...]:
    """Tiles of a block, where work-items are alone, that the table lists for just this shape.

    Those that there may be where it lists none.

    Parameters
    ----------
    capabilities : Capabilities
        Of the device.
    dtype : DType
        Of the products.
    shape : Geometry
        Of the convolution.
    table : object
        The state of the user's table.
    """
    known = _listed(capabilities, dtype, shape, table, weights=False)
    here = {choice["T"] for choice in known if choice["C"] and choice["ALGORITHM"] != "direct"}
    return tuple(sorted(here)) or _TILES


@lru_cache(maxsize=1024)
def direct_choices(
    capabilities: Capabilities,
    dtype: DType,
    shape: Geometry,
    table: Any,
    split: Any = False,
    blocks: int = 1,
) -> tuple[Parameters, ...]:
    """Choices of tiles of places by filters, the best first; gemm's follow those of the table.

    Parameters
    ----------
    capabilities, dtype, shape, table
        As of `tiles_of_blocks`.
    split : bool, "first" or "exact"
        Whether matrix units multiply single precision by parts.
    blocks : int
        Parts of the filters, whose tiles are apart.
    """
    height, width = shape.result
    size = (shape.images * height * width, shape.filters // blocks, blocks)
    known = _listed(capabilities, dtype, shape, table, weights=False)
    direct = [c for c in known if c["ALGORITHM"] == "direct" and not split]
    if split == "first" and "wgmma.tf32" in capabilities.matrix_units:
        halves = direct_choices(capabilities, float16, shape, table, blocks=blocks)
        # Of words as many bytes are half as many.
        words = [{**c, "BK": c["BK"] // 2, "SPLIT": "first"} for c in halves]
        direct = [c for c in words if c["SPECIALISED"]]
    if direct and all(c["SPECIALISED"] for c in direct):
        units = max(1, capabilities.compute_units)
        direct = sorted(direct, key=lambda c: _cycles(c, size, units))
    else:
        direct = _ranked([_narrowed(c, size[1]) for c in direct], size, dtype, capabilities)
    more = [_narrowed(c, size[1]) for c in _of_products(dtype, capabilities, split)]
    return (*direct, *_ranked(more, size, dtype, capabilities))


def _cycles(choice: Parameters, size: tuple[int, int, int], units: int) -> float:
    """Of a step of all tiles that a copy engine fetches beside products, on an H200.

    Counted are products, rows of 128 bytes that a unit fetches, and those that all of them do.
    """
    m, n, count = size
    rows, products = choice["BM"] + choice["BN"], choice["BM"] * choice["BN"]
    tiles = -(-m // choice["BM"]) * -(-n // choice["BN"]) * count
    turns = -(-tiles // units)
    each = max(products / _PRODUCTS_A_CYCLE, rows * _CYCLES_A_ROW)
    return float(max(turns * each, tiles * rows / _ROWS_A_CYCLE))


def _narrowed(choice: Parameters, filters: int) -> Parameters:
    """A tile of about as many results, of fewer columns where there are not so many filters."""
    columns = max(_FEWEST_COLUMNS, 1 << (filters - 1).bit_length())
    if choice["UNITS"] or choice["WORKGROUP"] == 1 or columns >= choice["BN"]:
        return choice
    rows = min(_MOST_ROWS, choice["BM"] * choice["BN"] // columns)
    return {**choice, "BM": rows, "BN": columns}


@lru_cache(maxsize=1024)
def parted_choices(
    capabilities: Capabilities, size: tuple[int, int, int], table: Any
) -> tuple[Parameters, ...]:
    """Choices of tiles for parts of single precision, the best first.

    Parameters
    ----------
    capabilities, table
        As of `tiles_of_blocks`.
    size : (int, int, int)
        Rows and columns of the matrices, and how many there are.
    """
    return tuple(_ranked(list(_PARTED), size, float16, capabilities))


@lru_cache(maxsize=1024)
def sum_choices(
    capabilities: Capabilities,
    dtype: DType,
    shape: Geometry,
    size: tuple[int, int, int],
    table: Any,
    split: Any = False,
) -> tuple[Parameters, ...]:
    """Choices for the sums of gradients by filters, the best first.

    Parameters
    ----------
    capabilities, dtype, shape, table
        As of `tiles_of_blocks`.
    size : (int, int, int)
        Filters, channels and taps.
    split : bool, "first" or "exact"
        As of `direct_choices`.
    """
    known = _listed(capabilities, dtype, shape, table, weights=True)
    listed: list[Parameters] = [
        *(choice for choice in known if choice["ALGORITHM"] == "direct" and not split),
        *_of_products(dtype, capabilities, split),
    ]
    rows, columns, taps = size
    units = max(1, capabilities.compute_units)
    return tuple(_ranked(listed, (rows, columns, taps * units), dtype, capabilities))


def _of_products(dtype: DType, capabilities: Capabilities, split: Any) -> list[Parameters]:
    """What the tables of `gemm` list."""
    choices = lookup(TF32 if split else GEMM, tiles_like(dtype), capabilities)
    return [{**choice, "C": 0} for choice in choices]


@lru_cache(maxsize=1024)
def _listed(
    capabilities: Capabilities, dtype: DType, shape: Geometry, table: Any, weights: bool
) -> tuple[Parameters, ...]:
    """The table's choices for this shape and for all; `table` is the user's table's state."""
    extents = (shape.channels, shape.height, shape.width, shape.filters, shape.images)
    plain = shape.groups == 1 and shape.window.taps == (3, 3) and suits_winograd(shape)
    dtype = tiles_like(dtype)
    entries = [x for x in lookup(SPACE, dtype, capabilities) if not (weights and x["C"])]
    if weights:
        entries = [*lookup(SPACE_WEIGHTS, dtype, capabilities), *entries]
    return tuple(
        choice
        for choice in entries
        if not choice["C"] or (plain and tuple(choice[name] for name in _SHAPE) == extents)
    )


def _without_units(choice: Parameters, dtype: DType, capabilities: Capabilities) -> float:
    """How much longer a product takes that leaves matrix units out."""
    units = f"mma.{'tf32' if dtype is float32 else dtype.short}"
    left_out = units in capabilities.matrix_units and not choice["UNITS"]
    return _PLAIN.get(dtype.itemsize, 1.0) if left_out else 1.0


def _ranked(
    listed: list[Parameters],
    size: tuple[int, int, int],
    dtype: DType,
    capabilities: Capabilities,
) -> list[Parameters]:
    """Those for just this shape first, then by what the busiest compute unit has to work out.

    The table lists large tiles first.
    """
    units = max(1, capabilities.compute_units)
    costs = [
        _cost(choice, size, units) * _without_units(choice, dtype, capabilities) * (1 + _STEP * at)
        for at, choice in enumerate(listed)
    ]
    order = sorted(range(len(listed)), key=lambda at: (not listed[at]["C"], costs[at]))
    return [listed[at] for at in order]


def _cost(choice: Parameters, size: tuple[int, int, int], units: int) -> float:
    m, n, count = size
    tiles = -(-m // choice["BM"]) * -(-n // choice["BN"]) * count
    alone = choice["WORKGROUP"] == 1
    each = m * n * count / tiles if alone else choice["BM"] * choice["BN"]
    return float(-(-tiles // units) * each)
