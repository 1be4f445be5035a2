"""Running totals along an axis whose neighbours lie along another."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.reductions.reduction_kernels import read

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
    KIND: Any,
    INITIAL: Any,
    LANES: int,
    STRIP: int,
    SECTION: int,
    STARTS: int,
    SHIFT: int,
    STREAMING: bool,
) -> None:
    """Running totals within sections of the last axis, neighbours lying along another.

    A work-item does `STRIP` vectors of `LANES` rows, going on from the last `STARTS` of the
    `starts` before its section, merged. `SHIFT` is 1 where the first element of `out` is the total
    of nothing. The last sections come first: they were read last. `STREAMING` says that `out` is
    more than the caches hold.
    """
    lead = x.shape[: x.ndim - 1]
    length = x.shape[x.ndim - 1]
    sections = kl.cdiv(length, SECTION)
    rows = product_of(lead)
    strips = kl.cdiv(rows, LANES * STRIP)
    item = kl.global_id(0)
    s = sections - 1 - item // strips
    row = item % strips * (LANES * STRIP)
    if s >= 0:
        strip = kl.private((STRIP,), KIND, lanes=LANES)
        count = kl.minimum(kl.cdiv(rows - row, LANES), STRIP)
        for k in range(count):
            begin = kl.cast(INITIAL, KIND)
            strip[k] = kl.splat(begin, LANES) if LANES > 1 else begin
            outer = unravelled(row + k * LANES, lead)
            if starts is not None:
                for q in kl.range(kl.maximum(s - STARTS, 0), s, unroll=_AHEAD):
                    merged = read(starts, outer, q, LANES, x.ndim - 2, KIND, None)
                    strip[k] = MERGE(strip[k], merged)
            if SHIFT == 1 and s == 0:
                kept(out, outer, 0, strip[k], LANES, x.ndim - 2, STREAMING)
        first = s * SECTION
        stop = kl.minimum(first + SECTION, length)
        whole = first + (stop - first) // _AHEAD * _AHEAD
        if STRIP == 1:
            alone = unravelled(row, lead)
            totals = strip[0]
            for r in range(first, whole, _AHEAD):
                totals = scanned_ahead(
                    x, out, alone, r, totals, _AHEAD, LANES, KIND, SHIFT, MERGE, STREAMING
                )
            for r in range(whole, stop):
                totals = scanned_ahead(
                    x, out, alone, r, totals, 1, LANES, KIND, SHIFT, MERGE, STREAMING
                )
        else:
            for r in range(first, whole, _AHEAD):
                for k in range(count):
                    outer = unravelled(row + k * LANES, lead)
                    strip[k] = scanned_ahead(
                        x, out, outer, r, strip[k], _AHEAD, LANES, KIND, SHIFT, MERGE, STREAMING
                    )
            for r in range(whole, stop):
                for k in range(count):
                    outer = unravelled(row + k * LANES, lead)
                    strip[k] = scanned_ahead(
                        x, out, outer, r, strip[k], 1, LANES, KIND, SHIFT, MERGE, STREAMING
                    )


@function
def scanned_ahead(
    x: Any,
    out: Any,
    outer: Any,
    first: Any,
    start: Any,
    AHEAD: Any,
    LANES: Any,
    KIND: Any,
    SHIFT: Any,
    MERGE: Any,
    STREAMING: Any,
) -> Any:
    """Running totals of `AHEAD` vectors along the last axis, all of them read before the first."""
    read_ahead = ()
    for k in kl.static_range(AHEAD):
        read_ahead = (*read_ahead, read(x, outer, first + k, LANES, x.ndim - 2, KIND, None))  # type: ignore[assignment]
    totals = start
    for k in kl.static_range(AHEAD):
        totals = MERGE(totals, read_ahead[k])
        kept(out, outer, first + k + SHIFT, totals, LANES, x.ndim - 2, STREAMING)
    return totals


@function
def kept(out: Any, outer: Any, r: Any, value: Any, LANES: Any, AXIS: Any, STREAMING: Any) -> None:
    """Writes one value, or `LANES` of them along an axis."""
    if LANES > 1:
        kl.vstore(out, *outer, r, value, axis=AXIS, streaming=STREAMING)
    else:
        out[*outer, r] = value
