"""Reductions along the last axis in which the work-items of a workgroup share the work.

Neighbouring work-items read neighbouring vectors, and combine what they found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.arrivals import arrived_last
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import lane_numbers, product_of, unravelled
from portable.primitives.reductions.reduction_kernels import wins

__all__ = ["best_by_workgroup", "reduce_at_once", "reduce_by_workgroup"]

_CHAINS = 4
"""Sums that a work-item adds to in turn."""


@function
def merged_of(
    x: Any, outer: Any, begin: Any, stop: Any, jump: Any, MERGE: Any, WIDTH: Any, AHEAD: Any
) -> Any:
    """What this work-item's elements come to; neighbours take neighbouring vectors.

    From `begin` on it takes `AHEAD` vectors, `WIDTH` of them apart, reads them all before it merges
    them, and goes on `jump` elements further. It counts what is left, since positions beyond the
    end may not fit into an index.
    """
    across = kl.local_id(0) % WIDTH * MERGE.lanes
    full = kl.minimum(stop, x.shape[x.ndim - 1] - (MERGE.lanes - 1))
    stride = WIDTH * MERGE.lanes
    totals = kl.private((_CHAINS,), MERGE.kind, lanes=MERGE.lanes)
    for c in kl.static_range(_CHAINS):
        totals[c] = MERGE.spread(MERGE.nothing())
    r, left = begin + across, full - begin - across
    while left > (AHEAD - 1) * stride:
        ahead = [MERGE.read(x, outer, r + k * stride) for k in kl.static_range(AHEAD)]
        for k in kl.static_range(AHEAD):
            totals[k % _CHAINS] = MERGE(totals[k % _CHAINS], ahead[k])
        r, left = r + jump, left - jump
    while left > 0:
        totals[0] = MERGE(totals[0], MERGE.read(x, outer, r))
        r, left = r + stride, left - stride
    result = MERGE.folded(MERGE(MERGE(totals[0], totals[1]), MERGE(totals[2], totals[3])))
    if MERGE.lanes > 1:
        for k in range(kl.minimum(left + (stop - full), MERGE.lanes)):
            result = MERGE(result, MERGE.one(x, outer, r + k))
    return result


@kernel
def reduce_by_workgroup(
    x: Any, out: Any, *, MERGE: Any, WIDTH: int, TALL: int, SECTION: int
) -> None:
    """Merges sections of `SECTION` elements of the last axis: ``out[..., s]`` is the `s`-th's.

    A workgroup does one section of `TALL` rows, `WIDTH` work-items each.
    """
    lead = x.shape[: x.ndim - 1]
    sections = out.shape[out.ndim - 1]
    item = kl.local_id(0)
    group = kl.group_id(0)
    s = group % sections
    row = group // sections * TALL + item // WIDTH
    inside = row < product_of(lead)
    outer = unravelled(row, lead)
    result = MERGE.nothing()
    if inside:
        begin, jump = s * SECTION, _CHAINS * WIDTH * MERGE.lanes
        stop = kl.minimum(begin + SECTION, x.shape[x.ndim - 1])
        result = merged_of(x, outer, begin, stop, jump, MERGE, WIDTH, _CHAINS)
    result = kl.workgroup_reduce(MERGE, result, width=WIDTH)
    if inside and item % WIDTH == 0:
        out[*outer, s] = result


@kernel
def reduce_at_once(
    x: Any, parts: Any, counts: Any, out: Any, *, MERGE: Any, WIDTH: int, AHEAD: int
) -> None:
    """Merges the last axis: each workgroup a part into `parts`, the last one of a row those.

    Parts are whole tiles, of `AHEAD` vectors for each work-item. Nobody waits. `counts` has a place
    for each row; all are 0, and are left so.
    """
    lead = x.shape[: x.ndim - 1]
    sections = parts.shape[parts.ndim - 1]
    item = kl.local_id(0)
    group = kl.group_id(0)
    s, row = group % sections, group // sections
    outer = unravelled(row, lead)
    length, tile = x.shape[x.ndim - 1], AHEAD * WIDTH * MERGE.lanes
    section = kl.cdiv(kl.cdiv(length, tile), sections) * tile
    begin = s * section
    stop = begin + kl.minimum(section, length - begin)
    own = merged_of(x, outer, begin, stop, tile, MERGE, WIDTH, AHEAD)
    own = kl.workgroup_reduce(MERGE, own)
    if item == 0:
        parts[*outer, s] = own
    if arrived_last(counts, row, sections):
        rest = MERGE.nothing()
        for q in range(item, sections, WIDTH):
            rest = MERGE(rest, parts[*outer, q])
        rest = kl.workgroup_reduce(MERGE, rest)
        if item == 0:
            out[*outer] = rest


@kernel
def best_by_workgroup(
    x: Any,
    places: Any,
    values: Any,
    out: Any,
    *,
    LARGEST: bool,
    PLACE: Any,
    LANES: int,
    WIDTH: int,
    TALL: int,
    SECTION: int,
) -> None:
    """The least or greatest element of each section of the last axis, and its position.

    `places` are the positions of the elements of `x`, or None: their own. Work is cut as in
    `reduce_by_workgroup`; positions are counted in `PLACE`.
    """
    lead = x.shape[: x.ndim - 1]
    length = x.shape[x.ndim - 1]
    sections = out.shape[out.ndim - 1]
    item = kl.local_id(0)
    across = item % WIDTH
    group = kl.group_id(0)
    s = group % sections
    row = group // sections * TALL + item // WIDTH
    inside = row < product_of(lead)
    found = Found(kl.cast(0, x.dtype), kl.cast(0, PLACE))
    if inside:
        outer = unravelled(row, lead)
        stop = kl.minimum(s * SECTION + SECTION, length)
        # A work-item without an element of its own starts from the section's first.
        r = s * SECTION + across * LANES
        here = kl.where(r < stop, r, s * SECTION)
        found = found_at(x, places, outer, here, PLACE)
        if LANES > 1:
            full = kl.minimum(stop, length - (LANES - 1))
            steps = lane_numbers(PLACE, LANES)
            each = Found(kl.splat(found.value, LANES), kl.splat(found.place, LANES))
            while r < full:
                new = Found(kl.vload(x, *outer, r, lanes=LANES), steps + kl.cast(r, PLACE))
                each = kl.where(wins(new.value, each.value, LARGEST), new, each)
                r = r + WIDTH * LANES
            for lane in kl.static_range(LANES):
                found = Better(LARGEST)(found, Found(each.value[lane], each.place[lane]))
        width = 1 if LANES > 1 else WIDTH
        end = kl.minimum(r + LANES, stop) if LANES > 1 else stop
        for q in range(r, end, width):
            new_one = found_at(x, places, outer, q, PLACE)
            found = kl.where(wins(new_one.value, found.value, LARGEST), new_one, found)
    found = kl.workgroup_reduce(Better(LARGEST), found, width=WIDTH)
    if inside and across == 0:
        index = unravelled(row, lead)
        values[*index, s] = found.value
        out[*index, s] = kl.cast(found.place, kl.i64)


@dataclass(frozen=True)
class Found:
    """An element, or a vector of some, and its position."""

    value: Any
    place: Any


@dataclass(frozen=True)
class Better:
    """Which of two elements wins, the first of equals and of NaNs."""

    largest: bool

    @function
    def __call__(self, x: Any, y: Any) -> Any:
        """The one of two that is greater, or less, or else comes first."""
        tied = (x.value == y.value) | ((x.value != x.value) & (y.value != y.value))
        return kl.where(wins(y.value, x.value, self.largest) | (tied & (y.place < x.place)), y, x)


@function
def found_at(x: Any, places: Any, outer: Any, r: Any, PLACE: Any) -> Any:
    """The element at `r` of a row, and its position: `r`, or what `places` has there."""
    return Found(x[*outer, r], kl.cast(r if places is None else places[*outer, r], PLACE))
