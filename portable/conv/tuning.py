"""What may be tuned of convolutions, and which choices one tries."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any, Final

from portable.backend import Capabilities, Device
from portable.conv.geometry import Geometry, suits_winograd
from portable.dtypes import DType, float16
from portable.linalg.products.model import Product, parts_of
from portable.linalg.products.tuning import SPACE as GEMM
from portable.linalg.products.tuning import schemes, tiles_like
from portable.tune.space import Parameters, Space
from portable.tune.table import lookup

BLOCKS_ALONE: Final = (16, 32, 64)
"""Tiles that a block of Winograd's method may have where work-items are alone."""

_SHAPE: Final = ("C", "H", "W", "K", "N")
"""Channels, height, width, filters and images of the shape that an entry is for; 0 for all."""

_MOST_INEXACT: Final = 512
"""Channels up to which sums of matrix units are accurate enough."""

_ROW: Final = 128
"""Bytes."""

_PRODUCT_BYTES_A_CYCLE: Final = 4096
_CYCLES_A_ROW: Final = 2.8
_ROWS_A_CYCLE: Final = 42.0
_STORED: Final = 0.2
_BESIDE: Final = 0.3
_BEGUN: Final = 5000.0
_ADDED: Final = 0.02
"""Fitted to 178 tiles and parts of 21 layers of half precision on an H200, strided ones and of one
tap among them: those that come first took 1.03 of the time of the best, at most 1.18. What all
units fetch and what parts take was fitted again, to 21 lists of tiles of layers whose filters' rows
begin lines of the cache: 1.014 and 1.12."""

_STEP: Final = 0.15
"""What each place further down counts for: smaller tiles read more."""

_AT_WORK: Final = 512
"""Work-items that keep a compute unit busy: on an H200 3 x 3 with stride 2 of 512 channels of 8
images of 14 x 14 took 0.48 of the time in parts for four workgroups of 128 a unit."""

_FEWEST_STEPS: Final = 8
"""Of a part of a sum, beside which it costs little to write the part and to add it."""

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
    "BN": (16, 96, 160, 224, *GEMM.values["BN"]),
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
    # Half precision is searched with channels last, where blocks are as large as there are tiles.
    in_blocks = capabilities.single_work_items and dtype is not float16
    size_counts = in_blocks or choice["T"] == _UNUSED["T"]
    return size_counts and all(choice[name] == _UNUSED[name] for name in _UNUSED if name != "T")


_LEFT_OUT: Final = {**_UNUSED, "RESIDENT": 0, **dict.fromkeys(_SHAPE, 0)}

SPACE: Final = Space("conv", _VALUES, _fits, _LEFT_OUT)
"""The algorithm, for a shape the fastest one; tiles of direct products.

Where work-items are alone, images with channels first are convolved by Winograd's method in blocks
of ``T`` tiles.
"""


def _fits_weights(choice: Parameters, dtype: DType, capabilities: Capabilities) -> bool:
    """The same where there are no blocks of ``T`` tiles."""
    return bool(choice["T"] == _UNUSED["T"] and _fits(choice, dtype, capabilities))


SPACE_WEIGHTS: Final = Space("conv_weights", _VALUES, _fits_weights, _LEFT_OUT)
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


def leaves_units_idle(capabilities: Capabilities, shape: Geometry, tile: int = _RESULTS) -> bool:
    """Whether results are fewer tiles, of so many, than there are compute units."""
    results = shape.images * prod(shape.result) * shape.filters
    return results < capabilities.compute_units * tile


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
    return tuple(sorted(here)) or BLOCKS_ALONE


Scheme = tuple[Parameters, int]
"""Tiles, and into how many parts sums are cut."""


@lru_cache(maxsize=1024)
def direct_schemes(
    device: Device,
    dtype: DType,
    shape: Geometry,
    table: Any,
    split: Any = False,
    blocks: int = 1,
) -> tuple[Scheme, ...]:
    """Tiles of places by filters to try, the best first; gemm's follow those of the table.

    Parameters
    ----------
    device : Device
    dtype, shape, table
        As of `tiles_of_blocks`.
    split : bool, "first", "exact" or "given"
        Whether matrix units multiply single precision by parts.
    blocks : int
        Parts of the filters, whose tiles are apart.
    """
    can, filters = device.capabilities, shape.filters // blocks
    steps, deep = shape.window.count, shape.channels // blocks
    product = Product(shape.images * prod(shape.result), filters, steps * deep, blocks)
    own = () if split else _direct(can, dtype, shape, table)
    if split == "given":
        return parted_schemes(can, product)
    if split == "first" and "wgmma.tf32" in can.matrix_units:  # words of as many bytes are half
        halves = _direct(can, float16, shape, table)
        own = tuple({**c, "BK": c["BK"] // 2, "SPLIT": "first"} for c in halves if c["SPECIALISED"])
    ranked = _ranked(can, dtype, own, product, deep)
    more = schemes(device, tiles_like(dtype), "tf32" if split else "auto", product)
    return (*ranked, *((_narrowed(choice, filters), parts) for choice, parts in more))


def _direct(
    capabilities: Capabilities, dtype: DType, shape: Geometry, table: Any, weights: bool = False
) -> tuple[Parameters, ...]:
    listed = _listed(capabilities, dtype, shape, table, weights)
    return tuple(choice for choice in listed if choice["ALGORITHM"] == "direct")


def _narrowed(choice: Parameters, filters: int) -> Parameters:
    """A tile of about as many results, of fewer columns where there are not so many filters."""
    columns = max(_FEWEST_COLUMNS, 1 << (filters - 1).bit_length())
    if choice["UNITS"] or choice["WORKGROUP"] == 1 or columns >= choice["BN"]:
        return choice
    rows = min(_MOST_ROWS, choice["BM"] * choice["BN"] // columns)
    return {**choice, "BM": rows, "BN": columns}


def parted_schemes(capabilities: Capabilities, product: Product) -> tuple[Scheme, ...]:
    """Those of parts of single precision, by what the busiest compute unit has to work out.

    Parameters
    ----------
    capabilities : Capabilities
        Of the device.
    product : Product
        Of parts, which take turns.
    """
    units, ranked = capabilities.compute_units, []
    for at, choice in enumerate(_PARTED):
        tiles = _tiles(choice, product)
        room = max(1, _AT_WORK // choice["WORKGROUP"]) * units
        parts = max(1, min(room // tiles, product.k // choice["BK"] // _FEWEST_STEPS))
        ranked.append((_results(choice, -(-tiles // units), at), choice, parts))
    return tuple((choice, parts) for _, choice, parts in sorted(ranked, key=lambda x: x[0]))


def _tiles(choice: Parameters, product: Product) -> int:
    return int(-(-product.m // choice["BM"]) * -(-product.n // choice["BN"]) * product.batch)


def _results(choice: Parameters, tiles: int, at: int) -> float:
    """Results of so many tiles, those beyond the matrix among them, for a choice at that place."""
    return float(tiles * choice["BM"] * choice["BN"] * (1 + _STEP * at))


def _ranked(
    capabilities: Capabilities,
    dtype: DType,
    listed: tuple[Parameters, ...],
    product: Product,
    deep: int,
) -> tuple[Scheme, ...]:
    """Those for just this shape first, then by what tiles take in as many parts as suit them."""

    def timed(choice: Parameters) -> tuple[bool, float, Parameters, int]:
        steps = product.k // max(1, deep) * -(-deep // choice["BK"])
        seen = replace(product, k=steps * choice["BK"])
        most = 1 if capabilities.single_work_items else max(1, steps // _FEWEST_STEPS)
        tried = [n for n in parts_of(choice, seen, capabilities) if n <= most] or [1]
        times = {n: _cycles(choice, n, seen, dtype, capabilities) for n in tried}
        parts = min(times, key=times.__getitem__)
        return not choice["C"], times[parts], choice, parts

    ranked = sorted(map(timed, listed), key=lambda x: x[:2])
    return tuple((choice, parts) for *_, choice, parts in ranked)


def _cycles(
    choice: Parameters, parts: int, product: Product, dtype: DType, capabilities: Capabilities
) -> float:
    """Of all tiles that a copy engine fetches beside products, on an H200.

    Counted are products, rows of 128 bytes that a unit fetches and those that all of them do,
    results that are stored and partial sums.
    """
    m, n, k, size = choice["BM"], choice["BN"], choice["BK"], dtype.itemsize
    tiles = _tiles(choice, product) * parts
    steps, rows = -(-product.k // k // parts), (m + n) * k * size / _ROW
    each = max(m * n * k * size / _PRODUCT_BYTES_A_CYCLE, rows * _CYCLES_A_ROW)
    turns = -(-tiles // max(1, capabilities.compute_units))
    times = turns * (steps * each + m * n * _STORED), tiles * steps * rows / _ROWS_A_CYCLE
    added = _BEGUN + parts * product.m * product.n * product.batch * _ADDED if parts > 1 else 0.0
    return float(max(times) + _BESIDE * min(times) + added)


@lru_cache(maxsize=1024)
def sum_choices(
    device: Device,
    dtype: DType,
    shape: Geometry,
    size: tuple[int, int, int],
    table: Any,
    split: Any = False,
) -> tuple[Parameters, ...]:
    """Choices for the sums of gradients by filters, the best first.

    Parameters
    ----------
    device, dtype, shape, table
        As of `direct_schemes`.
    size : (int, int, int)
        Filters, channels and taps.
    split : bool, "first" or "exact"
        As of `direct_schemes`.
    """
    rows, columns, taps = size
    product = Product(rows, columns, shape.images * prod(shape.result), taps)
    listed = () if split else _direct(device.capabilities, dtype, shape, table, weights=True)

    def cost(choice: Parameters) -> tuple[bool, float]:
        """By what tiles fetch: those of 64 x 64 took 1.5 times as long for 320 channels."""
        fetched = float(_tiles(choice, product) * (choice["BM"] + choice["BN"]))
        return not choice["C"], fetched * (1 + _STEP * listed.index(choice))

    own = sorted(listed, key=cost)  # those for just this shape first
    more = schemes(device, tiles_like(dtype), "tf32" if split else "auto", product)
    return (*own, *(choice for choice, _ in more))


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
