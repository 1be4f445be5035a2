"""Running totals along an axis whose neighbours lie along another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled

__all__ = ["ColumnScan", "scan_columns"]

_AHEAD = 8
"""Rows that a work-item reads before it merges them."""


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
    """

    merge: Any
    strip: int
    section: int
    starts: int
    shift: int
    streaming: bool

    def further(self, x: Any, out: Any, outer: Any, r: Any, totals: Any, COUNT: int) -> Any:
        """Running totals of `COUNT` vectors along the axis, all of them read before the first."""
        given = [self.merge.read(x, outer, r + k, x.ndim - 2) for k in kl.static_range(COUNT)]
        for k in kl.static_range(COUNT):
            totals = self.merge(totals, given[k])
            self.put(out, outer, r + k + self.shift, totals)
        return totals

    def put(self, out: Any, outer: Any, r: Any, totals: Any) -> None:
        """Writes a vector."""
        kl.vstore(out, *outer, r, totals, axis=out.ndim - 2, streaming=self.streaming)


@kernel
def scan_columns(x: Any, starts: Any, out: Any, *, SCAN: Any) -> None:
    """Running totals within sections of the last axis, neighbours lying along another.

    The last sections come first: they were read last.

    Parameters
    ----------
    x : array
        What is read.
    starts : array or None
        The total of each section, or of all up to its end.
    out : array
        The result, whose first element is the total of nothing if it has one more.
    SCAN : ColumnScan
        How it is done.
    """
    MERGE, STRIP = SCAN.merge, SCAN.strip
    *lead, length = x.shape
    sections = kl.cdiv(length, SCAN.section)
    rows = product_of(lead)
    strips = kl.cdiv(rows, MERGE.lanes * STRIP)
    item = kl.global_id(0)
    s = sections - 1 - item // strips
    row = item % strips * (MERGE.lanes * STRIP)
    if s >= 0:
        strip = kl.private((STRIP,), MERGE.kind, lanes=MERGE.lanes)
        count = 1 if STRIP == 1 else kl.minimum(kl.cdiv(rows - row, MERGE.lanes), STRIP)
        for k in range(count):
            strip[k] = MERGE.spread(MERGE.nothing())
            outer = unravelled(row + k * MERGE.lanes, lead)
            if starts is not None:
                for q in kl.range(kl.maximum(s - SCAN.starts, 0), s, unroll=_AHEAD):
                    strip[k] = MERGE(strip[k], MERGE.read(starts, outer, q, x.ndim - 2))
            if SCAN.shift == 1 and s == 0:
                SCAN.put(out, outer, 0, strip[k])
        first = s * SCAN.section
        stop = kl.minimum(first + SCAN.section, length)
        for r, ahead in kl.vector_range(first, stop, lanes=_AHEAD):
            for k in range(count):
                outer = unravelled(row + k * MERGE.lanes, lead)
                strip[k] = SCAN.further(x, out, outer, r, strip[k], ahead)
