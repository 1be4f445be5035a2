"""Running totals along an axis whose neighbours lie along another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.reductions.merging import CHAIN
from portable.primitives.scans.chains import chain_added, levels_of, total_of_levels

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
        """In how many numbers the total of a section's chains is kept: see `chains`."""
        count, reach = 1, self.chain * CHAIN
        while reach < self.section:
            count, reach = count + 1, reach * CHAIN
        return count

    def further(
        self,
        x: kl.Array,
        out: kl.Array,
        outer: tuple[kl.Scalar, ...],
        r: kl.Scalar,
        before: kl.Scalar,
        chain: kl.Scalar,
        COUNT: int,
    ) -> Any:
        """Running totals of `COUNT` vectors along the axis, all of them read before the first.

        `before` is the total before the chain, `chain` that of it up to `r`.
        """
        if self.totals:
            return self.merge.more(x, outer, r, 1, x.ndim - 2, chain, COUNT)
        given = [self.merge.read(x, outer, r + k, x.ndim - 2) for k in kl.static_range(COUNT)]
        for k in kl.static_range(COUNT):
            chain = self.merge(chain, given[k])
            self.put(out, outer, r + k + self.shift, self.merge(before, chain))
        return chain

    def put(
        self, out: kl.Array, outer: tuple[kl.Scalar, ...], r: kl.Scalar, totals: kl.Scalar
    ) -> None:
        """Writes a vector."""
        kl.vstore(out, *outer, r, totals, axis=out.ndim - 2, streaming=self.streaming)

    def started(self, starts: kl.Array | None, outer: tuple[kl.Scalar, ...], s: kl.Scalar) -> Any:
        """The levels of section `s`: before it the totals of those above."""
        start = self.merge.spread(self.merge.nothing())
        if starts is not None:
            for q in kl.range(kl.maximum(s - self.starts, 0), s, unroll=_AHEAD):
                start = self.merge(start, self.merge.read(starts, outer, q, starts.ndim - 2))
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
                SCAN.put(out, outer, 0, nothing)
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
                    chains[k] = SCAN.further(x, out, outer, r, before[k], chains[k], ahead)
            number = (begin - first) // SCAN.chain
            for k in range(count):
                levels[k] = chain_added(levels[k], number, chains[k], nothing, MERGE)
        if SCAN.totals:
            for k in range(count):
                outer = unravelled(row + k * MERGE.lanes, lead)
                SCAN.put(out, outer, s, total_of_levels(levels[k], MERGE))
