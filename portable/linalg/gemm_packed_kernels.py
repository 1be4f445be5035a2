"""Products of operands that were packed first, for work-items that have a core to themselves.

Both operands are copied once into the order in which they are read, instead of by each tile that
needs them: strips as wide as a micro-tile, which is what a core holds in its registers, of rows of
the left operand and of columns of the right one. Those of the right one are packed first, for all
cores; each of the left one by the core that is about to multiply it, in whose cache it stays. The
scheme is that of K. Goto and R. van de Geijn,
"Anatomy of high-performance matrix multiplication", ACM TOMS 34 (2008).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.passes.matrix.micro_shape import MicroShape

__all__ = ["Packing", "multiply_strips", "pack_right"]


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
    """

    micro: MicroShape
    slab: int
    rows: int
    depth: int
    ahead: int
    cores: int

    def groups(self, rows: int) -> int:
        """Work-items for a result of so many rows: as many for each core."""
        return -(-rows // (self.rows * self.cores)) * self.cores


@kernel
def pack_right(x: Any, out: Any, *, DEPTH: int, COLUMNS: int, WIDTH: int, LANES: int) -> None:
    """Copies a matrix to strips of a few columns, a row after the other; zeros where it ends.

    A work-item does a tile, which passes through local memory: ``DEPTH * COLUMNS`` elements.

    Parameters
    ----------
    x : array, shape (K, N)
        Of any strides.
    out : array, shape (S, D, WIDTH)
        Strips, with S a multiple of ``COLUMNS // WIDTH``.
    DEPTH, COLUMNS : int
        Of a tile.
    WIDTH : int
        Columns of a strip; divides `COLUMNS`.
    LANES : int
        Of a vector; divides `WIDTH`.
    """
    steps = kl.cdiv(out.shape[1], DEPTH)
    column, first = kl.group_id(0) // steps * COLUMNS, kl.group_id(0) % steps * DEPTH
    tile = kl.local((DEPTH, COLUMNS), x.dtype)
    kl.copy(tile, x[first : first + DEPTH, column : column + COLUMNS])
    kl.barrier()
    for k in range(kl.minimum(out.shape[1] - first, DEPTH)):
        for j in kl.static_range(0, COLUMNS, LANES):
            value = kl.vload(tile, k, j, lanes=LANES)
            kl.vstore(out, column // WIDTH + j // WIDTH, first + k, j % WIDTH, value)


@function
def pack_left(x: Any, out: Any, strip: Any, tile: Any, DEPTH: int) -> None:
    """Copies a strip of rows, a column after the other, through a tile of so many columns."""
    WIDTH = tile.shape[0]
    row, depth = strip * WIDTH, x.shape[1]
    for first in range(0, depth, DEPTH):
        kl.copy(tile[:, :DEPTH], x[row : row + WIDTH, first : first + DEPTH])
        kl.barrier()
        for k in range(kl.minimum(depth - first, DEPTH)):
            for u in kl.static_range(WIDTH):
                out[strip, first + k, u] = tile[u, k]
        kl.barrier()


@function
def is_inside(out: Any, row: Any, column: Any, MICRO: MicroShape) -> Any:
    """Whether all of a micro-tile is."""
    return row + MICRO.rows <= out.shape[0] and column + MICRO.columns <= out.shape[1]


@function
def start_sums(sums: Any, edge: Any, before: Any, row: Any, column: Any, MICRO: MicroShape) -> None:
    """Begins a micro-tile of sums with those of earlier products, or with none."""
    if before is None:
        for u in kl.static_range(MICRO.rows):
            for v in kl.static_range(MICRO.vectors):
                sums[u, v] = kl.splat(kl.cast(0, edge.dtype), MICRO.lanes)
    elif is_inside(before, row, column, MICRO):
        for u in kl.static_range(MICRO.rows):
            for v in kl.static_range(MICRO.vectors):
                at = column + v * MICRO.lanes
                sums[u, v] = kl.vload(before, row + u, at, lanes=MICRO.lanes)
    else:
        for u in range(MICRO.rows):
            for x in range(MICRO.columns):
                edge[u, x] = 0
                if row + u < before.shape[0] and column + x < before.shape[1]:
                    edge[u, x] = before[row + u, column + x]
        for u in kl.static_range(MICRO.rows):
            for v in kl.static_range(MICRO.vectors):
                sums[u, v] = kl.vload(edge, u, v * MICRO.lanes, lanes=MICRO.lanes)


@function
def add_up(sums: Any, left: Any, right: Any, at: Any, depth: Any, PLAN: Packing) -> None:
    """Adds the products of two strips."""
    MICRO = PLAN.micro
    for k in range(depth):
        held = ()
        for v in kl.static_range(MICRO.vectors):
            value = kl.vload(right, at[1], k, v * MICRO.lanes, lanes=MICRO.lanes, ahead=PLAN.ahead)
            held = (*held, value)  # type: ignore[assignment]
        for u in kl.static_range(MICRO.rows):
            factor = kl.splat(left[at[0], k, u], MICRO.lanes)
            for v in kl.static_range(MICRO.vectors):
                sums[u, v] = sums[u, v] + factor * held[v]


@function
def put_sums(
    sums: Any, edge: Any, factor: Any, out: Any, row: Any, column: Any, MICRO: MicroShape
) -> None:
    """Puts a micro-tile of sums, times a factor, where it belongs."""
    scale = kl.splat(factor, MICRO.lanes)
    if is_inside(out, row, column, MICRO):
        for u in kl.static_range(MICRO.rows):
            for v in kl.static_range(MICRO.vectors):
                kl.vstore(out, row + u, column + v * MICRO.lanes, scale * sums[u, v])
    else:
        for u in kl.static_range(MICRO.rows):
            for v in kl.static_range(MICRO.vectors):
                kl.vstore(edge, u, v * MICRO.lanes, scale * sums[u, v])
        for u in range(kl.minimum(out.shape[0] - row, MICRO.rows)):
            for x in range(kl.minimum(out.shape[1] - column, MICRO.columns)):
                out[row + u, column + x] = edge[u, x]


@kernel
def multiply_strips(
    factor: Any, a: Any, left: Any, right: Any, before: Any, out: Any, *, PLAN: Packing, ACC: Any
) -> None:
    """A work-item for some strips of rows, which it multiplies by one strip of columns at a time.

    Work-items share the strips of rows out evenly.

    Parameters
    ----------
    factor : float
        Of the sums at last.
    a : array, shape (M, K)
        Of any strides.
    left : array, shape (S, D, W)
        Room for its strips, K being at most D.
    right : array, shape (T, D, W')
        Packed by `pack_right`.
    before : array, shape (M, N), or None
        What the sums begin with; it may be the result.
    out : array, shape (M, N)
        The result.
    PLAN : Packing
        How it does so.
    ACC : DType
        The type to sum in.
    """
    MICRO, DEPTH = PLAN.micro, PLAN.depth
    strips = kl.cdiv(out.shape[0], MICRO.rows)
    first = kl.group_id(0) * strips // kl.num_groups(0)
    last = (kl.group_id(0) + 1) * strips // kl.num_groups(0)
    tile = kl.local((MICRO.rows, DEPTH + MICRO.lanes), a.dtype)
    for strip in range(first, last):
        pack_left(a, left, strip, tile, DEPTH)
    edge = kl.private((MICRO.rows, MICRO.columns), ACC)
    sums = kl.private((MICRO.rows, MICRO.vectors), ACC, lanes=MICRO.lanes)
    for column in range(0, out.shape[1], MICRO.columns):
        for strip in range(first, last):
            row = strip * MICRO.rows
            start_sums(sums, edge, before, row, column, MICRO)
            add_up(sums, left, right, (strip, column // MICRO.columns), a.shape[1], PLAN)
            put_sums(sums, edge, factor, out, row, column, MICRO)
