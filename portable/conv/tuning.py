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
from portable.linalg.products.tuning import has_tensor_copies, tiles_like
from portable.tune.space import Parameters, Space
from portable.tune.table import lookup

_STEP: Final = 0.15
"""What each place further down in the table counts for: smaller tiles read more."""

_PLAIN: Final = {2: 8.0, 4: 2.5}
"""What products cost without matrix units beside those with them, by bytes of a factor."""

_SHAPE: Final = ("C", "H", "W", "K", "N")
"""Channels, height, width, filters and images of the shape that an entry is for; 0 for all."""

_UNUSED: Final = {"T": 32, "RUN": 1, "SPLIT": False}
"""Parameters that are no matter of direct convolution."""

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

_USUAL_ALONE: Final = {"BM": 48, "BN": 32, "BK": 64, "STAGES": 1, "RUN": 1, "UNITS": False}
"""What an entry has that is found by images with channels first, for those with channels last."""


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


def _fits(choice: Parameters, dtype: DType, capabilities: Capabilities) -> bool:
    if choice["ALGORITHM"] == "direct":
        unused = all(choice[name] == value for name, value in _UNUSED.items())
        return unused and GEMM.fits(choice, dtype, capabilities)
    m, n, k, stages = (choice[name] for name in ("BM", "BN", "BK", "STAGES"))
    alone = choice["WORKGROUP"] == 1
    if alone != capabilities.single_work_items or choice["WORKGROUP"] > capabilities.max_workgroup:
        return False
    if choice["SPECIALISED"] or (choice["SPLIT"] and not _may_split(choice, dtype, capabilities)):
        return False
    room = max(capabilities.local_memory, capabilities.local_memory_opt_in)
    per_item = m * n // choice["WORKGROUP"] * dtype.register.itemsize // 4
    small = stages * (m + n) * k * dtype.register.itemsize * 17 // 16 <= room
    return bool(small and choice["T"] >= n and (alone or 16 <= per_item <= 160))


def _is_read(choice: Parameters, dtype: DType, capabilities: Capabilities) -> bool:
    """Whether a choice that fits differs from others in what convolutions read.

    Where work-items are alone, images with channels first take nothing but the algorithm and ``T``;
    those of half precision are searched with channels last.
    """
    if not _fits(choice, dtype, capabilities):
        return False
    if choice["ALGORITHM"] == "direct" or dtype is float16 or not capabilities.single_work_items:
        return True
    usual = {**_USUAL_ALONE, "BN": min(choice["T"], _USUAL_ALONE["BN"])}
    return all(choice[name] == value for name, value in usual.items())


def _may_split(choice: Parameters, dtype: DType, capabilities: Capabilities) -> bool:
    units = choice["UNITS"] and "mma.tf32" in capabilities.matrix_units
    return bool(units and dtype.register is float32)


_VALUES: Final = {
    "ALGORITHM": ("direct", *(f"winograd{results}" for results in range(2, 7))),
    "T": (16, 32, 64, 128),
    "BM": GEMM.values["BM"],
    "BN": (16, *GEMM.values["BN"]),
    "BK": GEMM.values["BK"],
    "STAGES": GEMM.values["STAGES"],
    "RUN": (1, 4),
    "SPECIALISED": (False, True),
    "WORKGROUP": GEMM.values["WORKGROUP"],
    "UNITS": (False, True),
    "SPLIT": (False, True),
}

_USUAL: Final = {"SPECIALISED": False, "RESIDENT": 0, **_UNUSED, **dict.fromkeys(_SHAPE, 0)}

SPACE: Final = Space("conv", _VALUES, _is_read, _USUAL)
"""Tiles of the product, and by Winograd's method how many tiles of images are in a block, ``T``.

A workgroup makes its tile of products for ``RUN`` blocks one after the other; `SPLIT` is as of
`portable.lang.matrix`. An entry for a shape also says by which algorithm it is fastest. Where
work-items are alone, images with channels first take only the algorithm and ``T`` from it, and no
more is searched: the rest of `portable.conv.winograd.blocks.BlockPlan` follows from these.
"""

SPACE_WEIGHTS: Final = Space("conv_weights", _VALUES, _fits, _USUAL)
"""For gradients by filters, of which the columns are channels; after it comes the table of `SPACE`.
"""


def entry_of(shape: tuple[int, ...], choice: Parameters) -> Parameters:
    """The table's entry for a shape (C, H, W, K, N)."""
    return {**choice, **dict(zip(_SHAPE, shape, strict=True))}


def exact(choice: Parameters) -> Parameters:
    """A choice by which matrix units add no more than a few products up: they round towards zero.

    It takes 1.12 to 1.25 times the time on an H200.
    """
    return {**choice, "SPLIT": "exact"} if choice["SPLIT"] else choice


def accurate(choice: Parameters, shape: Geometry, capabilities: Capabilities) -> Parameters:
    """A choice for Winograd's products whose errors are within 4 times those of direct sums.

    F(4 x 4) had 1.7 to 2.6 times their error on an H200, of more than 512 channels or beside sums
    of few results, which are cut into parts, up to 6 times; exactly added 0.5 to 1.2 times.
    """
    return exact(choice) if adds_exactly(capabilities, shape) else choice


def adds_exactly(capabilities: Capabilities, shape: Geometry) -> bool:
    """Whether matrix units are to add no more than a few products up (`accurate`)."""
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
        As of `winograd_choices`.
    weights : bool
        Whether the table is that of gradients by filters.
    """
    known = _listed(capabilities, dtype, shape, table, weights)
    return next((choice["ALGORITHM"] for choice in known if choice["C"]), None)


@lru_cache(maxsize=1024)
def winograd_choices(
    capabilities: Capabilities,
    dtype: DType,
    shape: Geometry,
    columns: int,
    matrices: int,
    table: Any,
    blocked: bool = True,
) -> tuple[Parameters, ...]:
    """Choices for products of Winograd's method, the best first, all of them of one ``T``.

    Parameters
    ----------
    capabilities : Capabilities
        Of the device.
    dtype : DType
        Of the products.
    shape : Geometry
        Of the convolution, whose filters are the products' rows.
    columns : int
        Of a product.
    matrices : int
        Products.
    table : object
        The state of the user's table.
    blocked : bool
        Whether columns are tiles of images, in blocks of ``T``; else they are channels, and the
        gradient by filters is wanted.
    """
    filters = shape.filters // shape.groups
    known = _listed(capabilities, dtype, shape, table, not blocked)
    transformed = [c for c in known if c["ALGORITHM"] != "direct"]
    ranked = _ranked(transformed, (filters, columns, matrices), dtype, capabilities, blocked)
    return tuple(choice for choice in ranked if choice["T"] == ranked[0]["T"])


def tiles_of_blocks(
    capabilities: Capabilities, dtype: DType, shape: Geometry, table: Any
) -> tuple[int, ...]:
    """Tiles of a block that the table lists, for just this shape if it does, else for all.

    Parameters
    ----------
    capabilities, dtype, shape, table
        As of `winograd_choices`.
    """
    known = _listed(capabilities, dtype, shape, table, weights=False)
    transformed = [choice for choice in known if choice["ALGORITHM"] != "direct"]
    exact_here = [choice for choice in transformed if choice["C"]]
    return tuple(sorted({choice["T"] for choice in exact_here or transformed}))


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
        As of `winograd_choices`.
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
        As of `winograd_choices`.
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
        As of `winograd_choices`.
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
    return [{**choice, "C": 0} for choice in _copied(choices, capabilities)]


def _copied(choices: list[Parameters], capabilities: Capabilities) -> list[Parameters]:
    """Those whose tiles a device copies well: by an engine where that runs beside products."""
    can = has_tensor_copies(capabilities)
    return [x for x in choices if can or not x["SPECIALISED"]]


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
        for choice in _copied(entries, capabilities)
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
    blocked: bool = False,
) -> list[Parameters]:
    """Those for just this shape first, then by what the busiest compute unit has to work out.

    The table lists large tiles first.
    """
    units = max(1, capabilities.compute_units)
    costs = [
        _cost(choice, size, units, choice["T"] if blocked else 1)
        * _without_units(choice, dtype, capabilities)
        * (1 + _STEP * at)
        for at, choice in enumerate(listed)
    ]
    order = sorted(range(len(listed)), key=lambda at: (not listed[at]["C"], costs[at]))
    return [listed[at] for at in order]


def _cost(choice: Parameters, size: tuple[int, int, int], units: int, block: int) -> float:
    m, n, count = size
    n = -(-n // block) * block
    tiles = -(-m // choice["BM"]) * -(-n // choice["BN"]) * count
    alone = choice["WORKGROUP"] == 1
    each = m * n * count / tiles if alone else choice["BM"] * choice["BN"]
    return float(-(-tiles // units) * each)
