"""Running totals along the last axis in which the work-items of a workgroup share the work.

A tile is a part of a row that a workgroup holds in registers; see `Tile`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.reductions.merging import CHAIN, Line
from portable.primitives.scans.board_kernels import (
    chain_added,
    levels_of,
    levels_over,
    total_of_levels,
)

# Running totals along an axis whose neighbours lie along another.

_AHEAD = 8
"""Rows that a work-item reads before it merges them."""
_CHAIN = 2 * CHAIN
"""Elements of a chain where each step rounds: so many that its end costs little."""


@dataclass(frozen=True)
class ColumnScan:
    """How columns are scanned; a constant of the kernel.

    Attributes
    ----------
    merge : Merge
        What is done, and how many neighbours are a vector.
    strip : int
        Vectors of neighbours that a work-item does side by side.
    section : int
        Elements of the axis that it does.
    starts : int
        Of so many sections before its own it merges the totals that it goes on from.
    shift : int
        1 where the first element of the result is the total of nothing.
    streaming : bool
        Whether the result is more than the caches hold.
    totals : bool
        Whether only the total of each section is wanted.
    full : bool
        Whether all strips are of that many vectors, so that compilers keep few in registers.
    """

    merge: Any
    strip: int
    section: int
    starts: int = 0
    shift: int = 0
    streaming: bool = False
    totals: bool = False
    full: bool = False

    @property
    def chain(self) -> int:
        """Elements of a chain."""
        return min(self.section, _CHAIN) if self.merge.rounds else self.section

    @property
    def levels(self) -> int:
        """In how many numbers the total of a section's chains is kept: see `board_kernels`."""
        return levels_over(-(-self.section // self.chain))

    def further(
        self, line: Line, out: Line, r: kl.Scalar, before: kl.Scalar, chain: kl.Scalar, COUNT: int
    ) -> Any:
        """Running totals of `COUNT` vectors along the axis, all of them read before the first.

        `before` is the total before the chain, `chain` that of it up to `r`.
        """
        if self.totals:
            return self.merge.more(line, r, 1, line.x.ndim - 2, chain, COUNT)
        given = [self.merge.read(line, r + k, line.x.ndim - 2) for k in kl.static_range(COUNT)]
        for k in kl.static_range(COUNT):
            chain = self.merge(chain, given[k])
            self.put(out, r + k + self.shift, self.merge(before, chain))
        return chain

    def put(self, line: Line, r: kl.Scalar, totals: kl.Scalar) -> None:
        """Writes a vector."""
        out, outer = line
        kl.vstore(out, *outer, r, totals, axis=out.ndim - 2, streaming=self.streaming)

    def started(self, starts: kl.Array | None, outer: tuple[kl.Scalar, ...], s: kl.Scalar) -> Any:
        """The levels of section `s`: before it the totals of those above."""
        start = self.merge.spread(self.merge.nothing())
        if starts is not None:
            for q in kl.range(kl.maximum(s - self.starts, 0), s, unroll=_AHEAD):
                start = self.merge(start, self.merge.read(Line(starts, outer), q, starts.ndim - 2))
        return (*levels_of(self.merge.spread(self.merge.nothing()), self.levels - 1), start)


@kernel
def scan_columns(x: kl.Array, starts: kl.Array | None, out: kl.Array, *, SCAN: ColumnScan) -> None:
    """Running totals within sections of the last axis, neighbours lying along another.

    The last sections come first: they were read last.

    Parameters
    ----------
    x : array
        What is read.
    starts : array or None
        The total of each section, or of all up to its end.
    out : array
        The result, whose first element is the total of nothing if it has one more; or the total of
        each section.
    SCAN : ColumnScan
        How it is done.
    """
    MERGE, STRIP = SCAN.merge, SCAN.strip
    *lead, length = x.shape
    sections = kl.cdiv(length, SCAN.section)
    rows = product_of(lead)
    strips = kl.cdiv(rows, MERGE.lanes * STRIP)
    item = kl.global_id(0)
    s = item // strips if SCAN.totals else sections - 1 - item // strips
    row = item % strips * (MERGE.lanes * STRIP)
    nothing = MERGE.spread(MERGE.nothing())
    if (s >= 0) & (s < sections):
        levels = kl.private((STRIP,), (MERGE.kind,) * SCAN.levels, lanes=MERGE.lanes)
        before = kl.private((STRIP,), MERGE.kind, lanes=MERGE.lanes)
        chains = kl.private((STRIP,), MERGE.kind, lanes=MERGE.lanes)
        count = STRIP if SCAN.full else kl.minimum(kl.cdiv(rows - row, MERGE.lanes), STRIP)
        for k in range(count):
            outer = unravelled(row + k * MERGE.lanes, lead)
            levels[k] = SCAN.started(starts, outer, s)
            if SCAN.shift == 1 and s == 0:
                SCAN.put(Line(out, outer), 0, nothing)
        first = s * SCAN.section
        stop = kl.minimum(first + SCAN.section, length)
        for begin in range(first, stop, SCAN.chain):
            for k in range(count):
                before[k] = total_of_levels(levels[k], MERGE)
                chains[k] = nothing
            end = begin + kl.minimum(stop - begin, SCAN.chain)
            for r, ahead in kl.vector_range(begin, end, lanes=_AHEAD):
                for k in range(count):
                    outer = unravelled(row + k * MERGE.lanes, lead)
                    lines = Line(x, outer), Line(out, outer)
                    chains[k] = SCAN.further(*lines, r, before[k], chains[k], ahead)
            number = (begin - first) // SCAN.chain
            for k in range(count):
                levels[k] = chain_added(levels[k], number, chains[k], nothing, MERGE)
        if SCAN.totals:
            for k in range(count):
                outer = unravelled(row + k * MERGE.lanes, lead)
                SCAN.put(Line(out, outer), s, total_of_levels(levels[k], MERGE))


# -- scan kernels ----------------------------------------------------------------------------------


@function
def running_totals(values: kl.Scalar, MERGE: Any) -> Any:
    """In each lane the total up to it, by doubling steps."""
    totals = values
    reach = 1
    for _ in kl.static_range(4):
        if reach < MERGE.lanes:
            before = [
                MERGE.nothing() if lane < reach else totals[lane - reach]
                for lane in kl.static_range(MERGE.lanes)
            ]
            totals = MERGE(kl.vector(*before), totals)
            reach = reach * 2
    return totals


@function
def padded(at: kl.Scalar, EVERY: int) -> Any:
    """Where a total is kept: a place is left out for every `EVERY`, against bank conflicts."""
    return at + at // EVERY if EVERY > 1 else at


@dataclass(frozen=True)
class Tile:
    """How a workgroup holds a part of a row, or of several; a constant of kernels.

    Attributes
    ----------
    merge : Merge
        What is done, and how many neighbours are a vector.
    width : int
        Work-items of a row, which take neighbouring vectors.
    strips : int
        How many vectors each of them holds, `width` vectors apart.
    """

    merge: Any
    width: int
    strips: int

    @property
    def size(self) -> int:
        """Elements of a tile."""
        return int(self.width * self.strips * self.merge.lanes)

    def levels(self, section: int) -> int:
        """In how many numbers the total of a section's tiles is kept: see `board_kernels`."""
        return max(2, levels_over(-(-section // self.size))) if self.merge.rounds else 1

    def place_of(self, strip: int, across: kl.Scalar) -> Any:
        """Where in its tile a vector of a work-item begins."""
        return (strip * self.width + across) * self.merge.lanes

    def loaded(self, line: Line, r: kl.Scalar, stop: kl.Scalar) -> Any:
        """The vector from `r` on, with nothing beyond `stop`."""
        if self.merge.lanes == 1:
            return self.one(line, r, stop)
        vector = self.merge.spread(self.merge.nothing())
        if r + self.merge.lanes <= stop:
            vector = self.merge.read(line, r)
        else:
            lanes = kl.static_range(self.merge.lanes)
            vector = kl.vector(*[self.one(line, r + lane, stop) for lane in lanes])
        return vector

    def one(self, line: Line, r: kl.Scalar, stop: kl.Scalar) -> Any:
        """The element at `r`, or nothing beyond `stop`."""
        value = self.merge.nothing()
        if r < stop:
            value = self.merge.one(line, r)
        return value

    def stored(self, line: Line, r: kl.Scalar, stop: kl.Scalar, values: kl.Scalar) -> None:
        """Writes a vector from `r` on, nothing beyond `stop`."""
        out, outer = line
        if r + self.merge.lanes <= stop:
            kl.vstore(out, *outer, r, values)
        elif self.merge.lanes > 1:
            for lane in kl.static_range(self.merge.lanes):
                if r + lane < stop:
                    out[*outer, r + lane] = values[lane]

    def total_place(self, strip: int) -> Any:
        """Where the total of a vector of this work-item is kept."""
        item = kl.local_id(0)
        across = item % self.width
        row = (item - across) * self.strips
        if self.width % self.strips == 0:
            # Its parts, of which all but a constant are the same for every strip.
            start = padded(row, self.strips) + padded(across, self.strips)
            return start + strip * padded(self.width, self.strips)
        return padded(row + strip * self.width + across, self.strips)

    def add_up(self, sums: kl.Array, spare: kl.Array) -> Any:
        """Running totals of the work-items' numbers of a row, four at a time; in one of both."""
        item = kl.local_id(0)
        across = item % self.width
        kl.barrier()
        reach = 1
        for _ in kl.static_range(5):
            if reach < self.width:
                total = sums[item]
                for k in kl.static_range(1, 4):
                    if k * reach < self.width and across >= k * reach:
                        total = self.merge(sums[item - k * reach], total)
                spare[item] = total
                kl.barrier()
                sums, spare = spare, sums
                reach = reach * 4
        return sums

    def added_up(self, mine: Any, totals: kl.Array, sums: kl.Array, spare: kl.Array) -> Any:
        """Running totals of `strips` vectors each, in `sums` or `spare`; those within in `totals`.

        `mine` are this work-item's vectors, as running totals of each. The last of a row's sums is
        the total of its tile.
        """
        item = kl.local_id(0)
        for strip in kl.static_range(self.strips):
            totals[self.total_place(strip)] = mine[strip][self.merge.lanes - 1]
        kl.barrier()
        below = self.merge.nothing()
        for k in kl.static_range(self.strips):
            slot = padded(item * self.strips, self.strips) + k
            total = totals[slot]
            totals[slot] = below
            below = self.merge(below, total)
        sums[item] = below
        return self.add_up(sums, spare)

    def before_vector(self, strip: int, totals: kl.Array, sums: kl.Array) -> Any:
        """The total of what comes before a vector of this work-item in its tile."""
        item = kl.local_id(0)
        across = item % self.width
        at = (strip * self.width + across) // self.strips
        if self.width % self.strips == 0:
            at = strip * (self.width // self.strips) + across // self.strips
        before = totals[self.total_place(strip)]
        if at > 0:
            before = self.merge(sums[item - across + at - 1], before)
        return before

    def raised(self, by: kl.Scalar, values: kl.Scalar) -> Any:
        """A vector with one number added in front."""
        return self.merge(self.merge.spread(by), values)


@kernel
def scan_by_workgroup(
    x: kl.Array, starts: kl.Array | None, out: kl.Array, *, TILE: Tile, CUT: Any, SHIFT: int
) -> None:
    """Running totals within sections of the last axis, in tiles of these.

    Parameters
    ----------
    x : array
        What is read.
    starts : array or None
        What running totals go on from: the total up to the end of each section.
    out : array
        The result, whose first element is the total of nothing if it has one more.
    TILE : Tile
        What a workgroup holds.
    CUT : Sections
        How rows are cut, and shared.
    SHIFT : int
        How many elements more than `x` the rows of `out` have.
    """
    lead = x.shape[: x.ndim - 1]
    item = kl.local_id(0)
    across = item % TILE.width
    section = CUT.own(lead, x.shape[x.ndim - 1])
    totals = kl.local((padded(TILE.strips * TILE.width * CUT.tall, TILE.strips),), TILE.merge.kind)
    halves = kl.local((2, TILE.width * CUT.tall), TILE.merge.kind)
    carried = TILE.merge.nothing()
    if starts is not None and section.number > 0 and section.inside:
        carried = kl.cast(starts[*section.outer, section.number - 1], TILE.merge.kind)
    if SHIFT == 1 and section.number == 0 and across == 0 and section.inside:
        out[*section.outer, 0] = carried
    stop = kl.where(section.inside, section.stop, section.first)
    levels = (*levels_of(TILE.merge.nothing(), TILE.levels(CUT.size) - 1), carried)
    for tile in range(section.first, section.stop, TILE.size):
        places = [tile + TILE.place_of(strip, across) for strip in kl.static_range(TILE.strips)]
        raw = [TILE.loaded(Line(x, section.outer), slot, stop) for slot in places]
        mine = [running_totals(vector, TILE.merge) for vector in raw]
        sums = TILE.added_up(mine, totals, halves[0], halves[1])
        for strip in kl.static_range(TILE.strips):
            before = TILE.merge(carried, TILE.before_vector(strip, totals, sums))
            done = TILE.raised(before, mine[strip])
            TILE.stored(Line(out, section.outer), places[strip] + SHIFT, stop + SHIFT, done)
        # The next tile's sums are written behind a barrier, which all come to after reading these.
        number, total = (tile - section.first) // TILE.size, sums[item - across + TILE.width - 1]
        levels = chain_added(levels, number, total, TILE.merge.nothing(), TILE.merge)
        carried = total_of_levels(levels, TILE.merge)
