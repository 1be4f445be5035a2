"""Running totals along an axis whose neighbours lie along another."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled

__all__ = ["scan_columns"]

_AHEAD = 8
"""Rows that a work-item reads before it merges them."""


@kernel
def scan_columns(
    x: Any,
    starts: Any,
    out: Any,
    *,
    MERGE: Any,
    STRIP: int,
    SECTION: int,
    STARTS: int,
    SHIFT: int,
    STREAMING: bool,
) -> None:
    """Running totals within sections of the last axis, neighbours lying along another.

    A work-item does `STRIP` vectors of rows, going on from the last `STARTS` of the `starts` before
    its section, merged. `SHIFT` is 1 where the first element of `out` is the total of nothing. The
    last sections come first: they were read last. `STREAMING` says that `out` is more than the
    caches hold.
    """
    lead = x.shape[: x.ndim - 1]
    length = x.shape[x.ndim - 1]
    sections = kl.cdiv(length, SECTION)
    rows = product_of(lead)
    strips = kl.cdiv(rows, MERGE.lanes * STRIP)
    item = kl.global_id(0)
    s = sections - 1 - item // strips
    row = item % strips * (MERGE.lanes * STRIP)
    if s >= 0:
        strip = kl.private((STRIP,), MERGE.kind, lanes=MERGE.lanes)
        count = kl.minimum(kl.cdiv(rows - row, MERGE.lanes), STRIP)
        for k in range(count):
            strip[k] = MERGE.spread(MERGE.nothing())
            outer = unravelled(row + k * MERGE.lanes, lead)
            if starts is not None:
                for q in kl.range(kl.maximum(s - STARTS, 0), s, unroll=_AHEAD):
                    strip[k] = MERGE(strip[k], MERGE.read(starts, outer, q, x.ndim - 2))
            if SHIFT == 1 and s == 0:
                kl.vstore(out, *outer, 0, strip[k], axis=x.ndim - 2, streaming=STREAMING)
        first = s * SECTION
        stop = kl.minimum(first + SECTION, length)
        whole = first + (stop - first) // _AHEAD * _AHEAD
        how = (SHIFT, MERGE, STREAMING)
        if STRIP == 1:
            alone = unravelled(row, lead)
            totals = strip[0]
            for r in range(first, whole, _AHEAD):
                totals = scanned_ahead(x, out, alone, r, totals, _AHEAD, *how)
            for r in range(whole, stop):
                totals = scanned_ahead(x, out, alone, r, totals, 1, *how)
        else:
            for r in range(first, whole, _AHEAD):
                for k in range(count):
                    outer = unravelled(row + k * MERGE.lanes, lead)
                    strip[k] = scanned_ahead(x, out, outer, r, strip[k], _AHEAD, *how)
            for r in range(whole, stop):
                for k in range(count):
                    outer = unravelled(row + k * MERGE.lanes, lead)
                    strip[k] = scanned_ahead(x, out, outer, r, strip[k], 1, *how)


@function
def scanned_ahead(
    x: Any,
    out: Any,
    outer: Any,
    r: Any,
    start: Any,
    AHEAD: Any,
    SHIFT: Any,
    MERGE: Any,
    STREAMING: Any,
) -> Any:
    """Running totals of `AHEAD` vectors along the last axis, all of them read before the first."""
    given = [MERGE.read(x, outer, r + k, x.ndim - 2) for k in kl.static_range(AHEAD)]
    totals = start
    for k in kl.static_range(AHEAD):
        totals = MERGE(totals, given[k])
        place = r + k + SHIFT
        kl.vstore(out, *outer, place, totals, axis=x.ndim - 2, streaming=STREAMING)
    return totals
