"""Blocks of a band in the registers of a sub-group, and reflectors applied to them.

A block of `B` rows and columns is dealt out to a grid of work-items: rows in turn, columns in runs
of at most eight, so that sums along a row or a column are a few additions and a few shuffles, and
so that neighbours in local memory fall on different banks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function
from portable.linalg.base.sums import add_up_neighbours
from portable.linalg.reflectors.householder import mirror_beside

_RUN: Final = 8
_GRIDS: Final = {1: (1, 1), 8: (4, 2), 16: (4, 4), 32: (8, 4), 64: (8, 8)}
_TALL: Final = {1: (1, 1), 8: (8, 1), 16: (8, 2), 32: (16, 2), 64: (16, 4)}


@dataclass(frozen=True, slots=True)
class TileShape:
    """How a block is dealt out.

    Attributes
    ----------
    order : int
        Rows and columns of the block, a multiple of both extents of the grid.
    down, across : int
        The grid of a sub-group: work-items that share a column, and a row.
    """

    order: int
    down: int
    across: int

    @property
    def rows(self) -> int:
        """Rows that a work-item has a part of, `down` apart."""
        return self.order // self.down

    @property
    def columns(self) -> int:
        """Columns that it has a part of, in runs."""
        return self.order // self.across

    @property
    def run(self) -> int:
        """Columns side by side; eight of them are eight banks apart, or 24, whatever is odd."""
        return _RUN if self.columns % _RUN == 0 else self.columns

    @property
    def items(self) -> int:
        """Work-items of a grid, a sub-group."""
        return self.down * self.across

    @property
    def vector(self) -> int:
        """Places of what a reflector is made of: its numbers, then its tail; whole vectors."""
        return self.order + 4


def tile_shape(b: int, sub_group_size: int, tall: bool = False) -> TileShape | None:
    """The shape for blocks of at least `b` rows and columns; None if no grid has so many items.

    A `tall` one reads and writes longer pieces of columns, for which more work-items share a
    column's sum: from global memory an H200 took 540 ms instead of 748 for ``n = 32768, b = 128``.
    """
    if sub_group_size not in _GRIDS:
        return None
    down, across = (_TALL if tall else _GRIDS)[sub_group_size]
    widest = max(down, across)
    return TileShape(-(-b // widest) * widest, down, across)


@dataclass(frozen=True)
class Tile:
    """A work-item's part of a block, and its place in the grid."""

    x: Any
    down: Any
    across: Any

    @property
    def has_first_column(self) -> Any:
        """Whether a part of the first column is its own, as column 0."""
        return self.across == 0

    def row(self, a: int, SHAPE: TileShape) -> Any:
        """The row of the block that its `a`-th row is."""
        return self.down + SHAPE.down * a

    def column(self, b: int, SHAPE: TileShape) -> Any:
        """The column of the block that its `b`-th column is."""
        return self.across * SHAPE.run + self.beyond_first(b, SHAPE)

    def beyond_first(self, b: int, SHAPE: TileShape) -> Any:
        """How far its column `b` is from its first."""
        return b // SHAPE.run * SHAPE.run * SHAPE.across + b % SHAPE.run

    def has_corner(self, SHAPE: TileShape) -> Any:
        """Whether the last element of the last row is its own."""
        return self.down == SHAPE.down - 1 and self.across == SHAPE.across - 1

    def within(self, slot: kl.Scalar, ring: kl.Array, RING: Any) -> Any:
        """A place of the ring that may be beyond its end, once round."""
        if RING.direct:
            return slot
        return kl.where(slot >= ring.shape[0], slot - RING.slots * RING.block, slot)

    def place(self, ring: kl.Array, first: kl.Scalar, row: int, b: int, RING: Any) -> Any:
        """Where its column `b` begins in the ring; columns beyond the end are at the beginning.

        The block's column 0 begins at `first`, what is fetched or kept of it `row` places further.
        """
        STEP = RING.pitch - 1
        begin = first + row + self.down + self.column(0, RING.tile) * STEP
        if not RING.direct:
            beyond = first + RING.pitch * self.column(b, RING.tile) >= ring.shape[0]
            begin = kl.where(beyond, begin - RING.slots * RING.block, begin)
        return begin + self.beyond_first(b, RING.tile) * STEP

    def fetch(
        self, ring: kl.Array, first: kl.Scalar, row: int, missing: kl.Scalar, RING: Any
    ) -> None:
        """Loads a block, see `place`. Where its corner is `missing` it becomes zero."""
        SHAPE = RING.tile
        lacks = missing and self.has_corner(SHAPE)
        for b in kl.static_range(SHAPE.columns):
            at = self.place(ring, first, row, b, RING)
            for a in kl.static_range(SHAPE.rows):
                if a + 1 == SHAPE.rows and b + 1 == SHAPE.columns:
                    self.x[a, b] = 0
                    if not lacks:
                        self.x[a, b] = ring[at + SHAPE.down * a]
                else:
                    self.x[a, b] = ring[at + SHAPE.down * a]

    def keep(self, ring: kl.Array, first: kl.Scalar, row: int, left: Any, RING: Any) -> None:
        """Stores what `fetch` loads, but for its first column if that is `left` already."""
        SHAPE = RING.tile
        for b in kl.static_range(SHAPE.columns):
            at = self.place(ring, first, row, b, RING)
            for a in kl.static_range(SHAPE.rows):
                if b > 0 or not left:
                    ring[at + SHAPE.down * a] = self.x[a, b]

    def send(self, w: kl.Array, first: kl.Scalar, left: Any, RING: Any) -> None:
        """Stores the block in global memory, from place `first` on, with `left` as for `keep`."""
        SHAPE, STEP = RING.tile, RING.pitch - 1
        at = first + self.down + self.column(0, SHAPE) * STEP
        for b in kl.static_range(SHAPE.columns):
            for a in kl.static_range(SHAPE.rows):
                if b > 0 or not left:
                    w[at + (self.beyond_first(b, SHAPE) * STEP + SHAPE.down * a)] = self.x[a, b]

    def combine(
        self, v: kl.Array, corner: kl.Scalar | None, SHAPE: TileShape, TRANSPOSED: bool
    ) -> Any:
        """Applies the reflector of `v` to the rows of the block; `TRANSPOSED`, to its columns.

        The products go on beside a root and a division: what the first number of `v` and the
        `corner`, a value to be put in, give is added to them. Returns beta.
        """
        lines, (has_first, has_last) = self.lines(TRANSPOSED), self.ends(SHAPE, TRANSPOSED)
        factors, sums = self.numbers(v, SHAPE, TRANSPOSED), kl.private(lines.shape[0], v.dtype)
        firsts = kl.private(sums.shape[0], v.dtype)
        self.multiply(factors, sums, firsts, SHAPE, TRANSPOSED)
        beta, head, scale = made_of(v, SHAPE)
        factors[0] = kl.where(has_first, head, factors[0])
        if corner is not None:
            sums[sums.shape[0] - 1] += kl.where(has_last, corner * v[SHAPE.order - 1], 0)
            if self.has_corner(SHAPE):
                self.x[SHAPE.rows - 1, SHAPE.columns - 1] += corner
        # A branch, so that NVIDIA's compiler makes all sums before it begins to use some.
        if scale != 0:
            for line in kl.static_range(sums.shape[0]):
                share = scale * (sums[line] + head * firsts[line])
                for i in kl.static_range(factors.shape[0]):
                    lines[line, i] -= share * factors[i]
        return beta

    def numbers(self, v: kl.Array, SHAPE: TileShape, TRANSPOSED: bool) -> Any:
        """Its numbers of a reflector's vector, zero for the first one."""
        has_first, _ = self.ends(SHAPE, TRANSPOSED)
        factors = kl.private(SHAPE.rows if TRANSPOSED else SHAPE.columns, v.dtype)
        for i in kl.static_range(factors.shape[0]):
            factors[i] = v[self.number(i, SHAPE, TRANSPOSED)]
        factors[0] = kl.where(has_first, 0, factors[0])
        return factors

    def multiply(
        self,
        factors: kl.Array,
        sums: kl.Array,
        firsts: kl.Array,
        SHAPE: TileShape,
        TRANSPOSED: bool,
    ) -> None:
        """The products of rows or columns with a vector, and their first numbers."""
        lines = self.lines(TRANSPOSED)
        for line in kl.static_range(sums.shape[0]):
            sums[line] = 0
            for i in kl.static_range(factors.shape[0] - 1, -1, -1):
                sums[line] += factors[i] * lines[line, i]
            source = self.across * SHAPE.down if TRANSPOSED else self.down
            firsts[line] = kl.sub_group_shuffle(lines[line, 0], source)
        self.add_up(sums, SHAPE, TRANSPOSED)

    def eliminate(
        self, beta: kl.Scalar, pivot: kl.Scalar, SHAPE: TileShape, TRANSPOSED: bool
    ) -> None:
        """Makes a row, the first or the last, or the first column what a reflector makes of it."""
        lines, (has_first, _) = self.lines(TRANSPOSED), self.ends(SHAPE, TRANSPOSED)
        for line in (0,) if TRANSPOSED else (0, SHAPE.rows - 1):
            if self.number(line, SHAPE, not TRANSPOSED) == pivot:
                for i in kl.static_range(lines.shape[1]):
                    lines[line, i] = 0
                if has_first:
                    lines[line, 0] = beta

    def leave(self, values: kl.Array, vector: kl.Array, SHAPE: TileShape, TRANSPOSED: bool) -> Any:
        """Leaves the first row or, `TRANSPOSED`, column for a reflector, which `values` are of.

        Behind it stands the sum of the squares of all but its first number, which is returned.
        """
        has_first, _ = self.ends(SHAPE, TRANSPOSED)
        tail = kl.private(1, self.x.dtype, fill=kl.where(has_first, 0, values[0] * values[0]))
        for i in kl.static_range(1, values.shape[0]):
            tail[0] += values[i] * values[i]
        self.add_up(tail, SHAPE, TRANSPOSED)
        if self.across == 0 if TRANSPOSED else self.down == 0:
            for i in kl.static_range(values.shape[0]):
                vector[self.number(i, SHAPE, TRANSPOSED)] = values[i]
            if self.down == 0 and self.across == 0:
                vector[SHAPE.order] = tail[0]
        return tail[0]

    def lines(self, TRANSPOSED: bool) -> Any:
        """Its part as rows, or `TRANSPOSED` as columns."""
        return self.x.T if TRANSPOSED else self.x

    def number(self, i: int, SHAPE: TileShape, TRANSPOSED: bool) -> Any:
        """The number in the block of element `i` of a row or, `TRANSPOSED`, of a column."""
        return self.row(i, SHAPE) if TRANSPOSED else self.column(i, SHAPE)

    def ends(self, SHAPE: TileShape, TRANSPOSED: bool) -> Any:
        """Whether it has the first elements of its rows (columns), and the last row (column)."""
        if TRANSPOSED:
            return self.down == 0, self.across == SHAPE.across - 1
        return self.has_first_column, self.down == SHAPE.down - 1

    def add_up(self, sums: kl.Array, SHAPE: TileShape, TRANSPOSED: bool) -> None:
        """Sums over those who share a row, or `TRANSPOSED` a column."""
        which = tuple(i for i in range(sums.shape[0]))
        if TRANSPOSED:
            add_up_neighbours(sums, which, SHAPE.down)
        else:
            add_up_neighbours(sums, which, SHAPE.items, SHAPE.down)


@function
def made_of(v: kl.Array, SHAPE: TileShape) -> Any:
    """The reflector that is made of a vector and the tail that stands behind it."""
    return mirror_beside(v[0], v[SHAPE.order])
