"""Products of operands that were packed first, for work-items that have a core to themselves.

Both operands are copied once into the order in which they are read, instead of by each tile that
needs them: strips as wide as a micro-tile, which is what a core holds in its registers, of rows of
the left operand and of columns of the right one. Those of the right one are packed first, for all
cores; each of the left one by the core that is about to multiply it, in whose cache it stays. The
scheme is that of K. Goto and R. van de Geijn,
"Anatomy of high-performance matrix multiplication", ACM TOMS 34 (2008).
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.passes.matrix.micro_shape import MicroShape

__all__ = ["Packing", "Slab", "multiply_strips", "pack_right"]

_UNROLLED = 2
"""Rows of strips: in double precision one core took 0.93 of the time so; of four it spills."""


class Packing(NamedTuple):
    """How operands are packed and multiplied.

    Attributes
    ----------
    micro : MicroShape
        What a core holds in its registers.
    slab : int
        Products of each sum between packing.
    rows : int
        Of the left operand at most that a work-item packs before it multiplies them.
    depth : int
        Products for which it packs them at a time.
    ahead : int
        Elements that the right operand is asked for beforehand.
    cores : int
        Of the device.
    streaming : bool
        Whether the result passes the caches by.
    """

    micro: MicroShape
    slab: int
    rows: int
    depth: int
    ahead: int
    cores: int
    streaming: bool = False

    def groups(self, rows: int) -> int:
        """Work-items for a result of so many rows: as many for each core."""
        return -(-rows // (self.rows * self.cores)) * self.cores


class Slab(NamedTuple):
    """What of the right operand is packed at a time.

    Attributes
    ----------
    begin : int
        Where its rows begin, and the columns of the left operand that they are multiplied by.
    left, width : int
        Its first column, and how many there are.
    turned : int
        How many of the last of these come first, fewer than a vector has lanes: where rows of the
        result begin as far behind a line of the caches, all other tiles begin with a line.
    """

    begin: Any
    left: Any
    width: Any
    turned: Any = 0


@kernel
def pack_right(
    x: Any, out: Any, slab: Slab, *, DEPTH: int, COLUMNS: int, WIDTH: int, LANES: int
) -> None:
    """Copies some rows and columns of a matrix to strips of a few columns, a row after the other.

    A work-item does a tile, which passes through local memory: ``DEPTH * COLUMNS`` elements.

    Parameters
    ----------
    x : array, shape (K, N)
        Of any strides.
    out : array, shape (S, D, WIDTH)
        Strips, with S a multiple of ``COLUMNS // WIDTH``; rows beyond the matrix are zeros.
    slab : Slab
        Which columns, and where the D rows begin.
    DEPTH, COLUMNS : int
        Of a tile.
    WIDTH : int
        Columns of a strip; divides `COLUMNS`.
    LANES : int
        Of a vector; divides `WIDTH`.
    """
    begin, left, width, turned = slab
    steps = kl.cdiv(out.shape[1], DEPTH)
    column, first = kl.group_id(0) // steps * COLUMNS, kl.group_id(0) % steps * DEPTH
    row, start = begin + first, left + kl.maximum(column - turned, 0)
    before = kl.maximum(turned - column, 0)
    tile = kl.local((DEPTH, COLUMNS), x.dtype)
    kl.copy(tile, x[row : row + DEPTH, start : start + COLUMNS])
    kl.barrier()
    rows = kl.minimum(out.shape[1] - first, DEPTH)
    for j in range(0, COLUMNS, WIDTH):
        for k in range(rows):
            for v in kl.static_range(0, WIDTH, LANES):
                value = kl.vload(tile, k, kl.maximum(j + v - before, 0), lanes=LANES)
                kl.vstore(out, (column + j) // WIDTH, first + k, v, value)
    if before > 0:
        for k in range(kl.minimum(x.shape[0] - row, rows)):
            for j in range(before):
                out[0, first + k, j] = x[row + k, left + width - before + j]
            for j in range(before, LANES):
                out[0, first + k, j] = tile[k, j - before]


@function
def pack_left(x: Any, out: Any, strip: Any, tile: Any, slab: Any, DEPTH: int) -> None:
    """Copies a strip of rows, a column after the other, through a tile of so many columns.

    `slab` is where the columns begin, and how many there are.
    """
    WIDTH = tile.shape[0]
    row, (begin, depth) = strip * WIDTH, slab
    for first in range(0, depth, DEPTH):
        start = begin + first
        kl.copy(tile[:, :DEPTH], x[row : row + WIDTH, start : start + DEPTH])
        kl.barrier()
        for k in range(kl.minimum(depth - first, DEPTH)):
            for u in kl.static_range(WIDTH):
                out[strip, first + k, u] = tile[u, k]
        kl.barrier()


@function
def start_sums(sums: Any, kept: Any, at: Any, FIRST: Any, PLAN: Packing) -> None:
    """Begins a micro-tile of sums with none, or with those that were kept."""
    MICRO = PLAN.micro
    for u, v in product(kl.static_range(MICRO.rows), kl.static_range(MICRO.vectors)):
        if FIRST:
            sums[u, v] = kl.splat(kl.cast(0, kept.dtype), MICRO.lanes)
        else:
            sums[u, v] = kl.vload(kept, *at, u, v * MICRO.lanes, lanes=MICRO.lanes)


@function
def add_up(sums: Any, left: Any, right: Any, at: Any, depth: Any, PLAN: Packing) -> None:
    """Adds the products of two strips."""
    MICRO = PLAN.micro
    for k in kl.range(depth, unroll=_UNROLLED):
        held = ()
        for v in kl.static_range(MICRO.vectors):
            value = kl.vload(right, at[1], k, v * MICRO.lanes, lanes=MICRO.lanes, ahead=PLAN.ahead)
            held = (*held, value)  # type: ignore[assignment]
        for u in kl.static_range(MICRO.rows):
            factor = kl.splat(left[at[0], k, u], MICRO.lanes)
            for v in kl.static_range(MICRO.vectors):
                sums[u, v] = sums[u, v] + factor * held[v]


@function
def keep_sums(sums: Any, kept: Any, at: Any, MICRO: MicroShape) -> None:
    """Keeps a micro-tile of sums for the next slab."""
    for u, v in product(kl.static_range(MICRO.rows), kl.static_range(MICRO.vectors)):
        kl.vstore(kept, *at, u, v * MICRO.lanes, sums[u, v])


@function
def put_sums(
    sums: Any, edge: Any, factor: Any, out: Any, at: Any, panel: Any, PLAN: Packing
) -> None:
    """Puts a micro-tile of sums, times a factor, at a row and a column of a panel.

    Columns before the panel's first one are its last ones.
    """
    MICRO, (row, column), (left, width) = PLAN.micro, at, panel
    scale = kl.splat(factor, MICRO.lanes)
    rows, columns = row + MICRO.rows <= out.shape[0], column + MICRO.columns <= width
    if column >= 0 and rows and columns:
        for u, v in product(kl.static_range(MICRO.rows), kl.static_range(MICRO.vectors)):
            value, place = scale * sums[u, v], left + column + v * MICRO.lanes
            kl.vstore(out, row + u, place, value, streaming=PLAN.streaming)
    else:
        for u, v in product(kl.static_range(MICRO.rows), kl.static_range(MICRO.vectors)):
            kl.vstore(edge, u, v * MICRO.lanes, scale * sums[u, v])
        for u in range(kl.minimum(out.shape[0] - row, MICRO.rows)):
            for x in range(kl.minimum(width - column, MICRO.columns)):
                place = column + x
                out[row + u, left + kl.where(place < 0, place + width, place)] = edge[u, x]


@kernel
def multiply_strips(
    factor: Any, a: Any, strips: Any, right: Any, kept: Any, out: Any, slab: Slab,
    *, PLAN: Packing, PART: Any,
) -> None:  # fmt: skip
    """A work-item for some strips of rows, which it multiplies by one strip of columns at a time.

    Work-items share the strips of rows out evenly.

    Parameters
    ----------
    factor : float
        Of the sums at last.
    a : array, shape (M, K)
        Of any strides.
    strips : array, shape (S, D, W)
        Room for strips of D of its columns.
    right : array, shape (T, D, W')
        Packed by `pack_right`.
    kept : array, shape (T, S, W, W')
        Sums between slabs, as a core holds them: rows of the result are often far apart, so that
        their lines get into each other's way in caches.
    out : array, shape (M, N)
        The result.
    slab : Slab
        Which columns of `a`, and which of the result.
    PLAN : Packing
        How it does so.
    PART : (bool, bool)
        Whether this is the first slab, and whether it is the last.
    """
    begin, left, width, turned = slab
    MICRO, DEPTH, (FIRST, LAST) = PLAN.micro, PLAN.depth, PART
    count = kl.cdiv(out.shape[0], MICRO.rows)
    first = kl.group_id(0) * count // kl.num_groups(0)
    last = (kl.group_id(0) + 1) * count // kl.num_groups(0)
    depth = kl.minimum(a.shape[1] - begin, strips.shape[1])
    tile = kl.local((MICRO.rows, DEPTH + MICRO.lanes), a.dtype)
    for strip in range(first, last):
        pack_left(a, strips, strip, tile, (begin, depth), DEPTH)
    edge = kl.private((MICRO.rows, MICRO.columns), kept.dtype)
    sums = kl.private((MICRO.rows, MICRO.vectors), kept.dtype, lanes=MICRO.lanes)
    for column in range(kl.cdiv(width, MICRO.columns)):
        for strip in range(first, last):
            start_sums(sums, kept, (column, strip), FIRST, PLAN)
            add_up(sums, strips, right, (strip, column), depth, PLAN)
            if LAST:
                place = strip * MICRO.rows, column * MICRO.columns - turned
                put_sums(sums, edge, factor, out, place, (left, width), PLAN)
            else:
                keep_sums(sums, kept, (column, strip), MICRO)
