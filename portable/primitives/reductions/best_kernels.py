"""The positions of least and greatest elements along one axis, where work-items do long stretches.

What work-items find together is in `workgroup_kernels.best_by_workgroup`.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.reductions.merging import folded
from portable.primitives.reductions.reduction_kernels import keep_lanes, wins

__all__ = ["best_blocks", "best_columns"]

_CHAINS = 4
"""Vectors of which a work-item finds the best in turn, so that none waits for the one before."""


@function
def best_value(x: Any, outer: Any, first: Any, stop: Any, LANES: Any, LARGEST: Any) -> Any:
    """The least or greatest element from `first` to `stop` of a row; NaN if there is one."""
    merge = kl.maximum if LARGEST else kl.minimum
    result = x[*outer, first]
    r = first
    span = _CHAINS * LANES
    if LANES > 1 and first + span <= stop:
        best = [kl.vload(x, *outer, r + c * LANES, lanes=LANES) for c in kl.static_range(_CHAINS)]
        r = r + span
        while r + span <= stop:
            best = [
                merge(best[c], kl.vload(x, *outer, r + c * LANES, lanes=LANES))
                for c in kl.static_range(_CHAINS)
            ]
            r = r + span
        result = folded(merge(merge(best[0], best[1]), merge(best[2], best[3])), LANES, merge)
    for q in range(r, stop):
        result = merge(result, x[*outer, q])
    return result


@function
def same(x: Any, y: Any) -> Any:
    """Whether two numbers are equal, or both NaN."""
    return (x == y) | ((x != x) & (y != y))


@kernel
def best_blocks(
    x: Any, values: Any, out: Any, *, LARGEST: bool, LANES: int, BLOCK: int, SECTION: int
) -> None:
    """The least or greatest element of each section of the last axis, and its position.

    A work-item does a section: it finds the best value of each `BLOCK` elements, and then where in
    the first of the best blocks that is.
    """
    lead = x.shape[: x.ndim - 1]
    length = x.shape[x.ndim - 1]
    sections = out.shape[out.ndim - 1]
    item = kl.global_id(0)
    if item < product_of(lead) * sections:
        outer = unravelled(item // sections, lead)
        s = item % sections
        stop = kl.minimum(s * SECTION + SECTION, length)
        place = s * SECTION
        best = x[*outer, place]
        for block in range(place, stop, BLOCK):
            end = kl.minimum(block + BLOCK, stop)
            value = best_value(x, outer, block, end, LANES, LARGEST)
            if wins(value, best, LARGEST):
                best = value
                place = block
        span = 16 * LANES
        here = False
        while not here:
            end = kl.minimum(place + span, stop)
            here = same(best_value(x, outer, place, end, LANES, LARGEST), best)
            place = kl.where(here, place, place + span)
        while not same(x[*outer, place], best):
            place = place + 1
        values[*outer, s] = best
        out[*outer, s] = kl.cast(place, kl.i64)


@kernel
def best_columns(
    x: Any,
    values: Any,
    out: Any,
    *,
    LARGEST: bool,
    KIND: Any,
    PLACE: Any,
    LANES: int,
    STRIP: int,
    SECTION: int,
) -> None:
    """The same where neighbours lie along the last axis but one.

    A work-item does `STRIP` vectors of `LANES` rows; values are compared in `KIND`, positions
    counted in `PLACE`.
    """
    lead = x.shape[: x.ndim - 1]
    length = x.shape[x.ndim - 1]
    sections = out.shape[out.ndim - 1]
    rows = product_of(lead)
    strips = kl.cdiv(rows, LANES * STRIP)
    item = kl.global_id(0)
    s = item // strips
    row = item % strips * (LANES * STRIP)
    if s < sections:
        first = s * SECTION
        strip = kl.private((STRIP,), KIND, lanes=LANES)
        places = kl.private((STRIP,), PLACE, lanes=LANES)
        count = kl.minimum(kl.cdiv(rows - row, LANES), STRIP)
        for k in range(count):
            outer = unravelled(row + k * LANES, lead)
            strip[k] = kl.vload(x, *outer, first, lanes=LANES, axis=x.ndim - 2)
            places[k] = kl.splat(kl.cast(first, PLACE), LANES)
        for r in range(first + 1, kl.minimum(first + SECTION, length)):
            at = kl.splat(kl.cast(r, PLACE), LANES)
            for k in range(count):
                outer = unravelled(row + k * LANES, lead)
                new = kl.vload(x, *outer, r, lanes=LANES, axis=x.ndim - 2)
                won = wins(new, strip[k], LARGEST)
                strip[k] = kl.where(won, new, strip[k])
                places[k] = kl.where(won, at, places[k])
        for k in range(count):
            keep_lanes(values, row + k * LANES, s, strip[k], LANES)
            keep_lanes(out, row + k * LANES, s, kl.cast(places[k], kl.i64), LANES)
