"""Reductions along the last axis in which the work-items of a workgroup share the work.

Neighbouring work-items read neighbouring vectors, and meet in local memory.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.array.base.elementwise_kernel import product_of, unravelled
from portable.array.reductions.reduction_kernels import folded, read, wins
from portable.lang.arrivals import arrived_last
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["best_together", "merge_in_rows", "reduce_at_once", "reduce_together"]

_CHAINS = 4
"""Sums that a work-item adds to in turn."""


@function
def merged_of(
    x: Any,
    outer: Any,
    begin: Any,
    stop: Any,
    jump: Any,
    MERGE: Any,
    MAP: Any,
    KIND: Any,
    INITIAL: Any,
    LANES: Any,
    WIDTH: Any,
    AHEAD: Any,
) -> Any:
    """What this work-item's elements come to; neighbours take neighbouring vectors.

    From `begin` on it takes `AHEAD` vectors, `WIDTH` of them apart, reads them all before it merges
    them, and goes on `jump` elements further. It counts what is left, since positions beyond the
    end may not fit into an index.
    """
    result = kl.cast(INITIAL, KIND)
    across = kl.local_id(0) % WIDTH * LANES
    full = kl.minimum(stop, x.shape[x.ndim - 1] - (LANES - 1))
    stride = WIDTH * LANES
    neutral = kl.splat(result, LANES) if LANES > 1 else result
    totals = kl.private((_CHAINS,), KIND, lanes=LANES)
    for c in kl.static_range(_CHAINS):
        totals[c] = neutral
    r, left = begin + across, full - begin - across
    while left > (AHEAD - 1) * stride:
        ahead = ()
        for k in kl.static_range(AHEAD):
            ahead = (*ahead, read(x, outer, r + k * stride, LANES, -1, KIND, MAP))  # type: ignore[assignment]
        for k in kl.static_range(AHEAD):
            totals[k % _CHAINS] = MERGE(totals[k % _CHAINS], ahead[k])
        r, left = r + jump, left - jump
    while left > 0:
        totals[0] = MERGE(totals[0], read(x, outer, r, LANES, -1, KIND, MAP))
        r, left = r + stride, left - stride
    merged = MERGE(MERGE(totals[0], totals[1]), MERGE(totals[2], totals[3]))
    result = folded(merged, LANES, MERGE)
    if LANES > 1:
        for k in range(kl.minimum(left + (stop - full), LANES)):
            result = MERGE(result, read(x, outer, r + k, 1, -1, KIND, MAP))
    return result


@function
def merge_in_rows(shared: Any, value: Any, MERGE: Any, WIDTH: Any) -> None:
    """Leaves in the first place of each `WIDTH` what the values of so many work-items come to."""
    item = kl.local_id(0)
    shared[item] = value
    kl.barrier()
    half = WIDTH
    for _ in kl.static_range(10):
        if half > 1:
            half = half // 2
            if item % WIDTH < half:
                shared[item] = MERGE(shared[item], shared[item + half])
            kl.barrier()


@kernel
def reduce_together(
    x: Any,
    out: Any,
    *,
    MERGE: Any,
    MAP: Any,
    KIND: Any,
    INITIAL: Any,
    LANES: int,
    WIDTH: int,
    TALL: int,
    SECTION: int,
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
    shared = kl.local((WIDTH * TALL,), KIND)
    result = kl.cast(INITIAL, KIND)
    if inside:
        begin, jump = s * SECTION, _CHAINS * WIDTH * LANES
        stop = kl.minimum(begin + SECTION, x.shape[x.ndim - 1])
        result = merged_of(
            x, outer, begin, stop, jump, MERGE, MAP, KIND, INITIAL, LANES, WIDTH, _CHAINS
        )
    merge_in_rows(shared, result, MERGE, WIDTH)
    if inside and item % WIDTH == 0:
        out[*outer, s] = shared[item]


@kernel
def reduce_at_once(
    x: Any,
    parts: Any,
    counts: Any,
    out: Any,
    *,
    MERGE: Any,
    MAP: Any,
    KIND: Any,
    INITIAL: Any,
    LANES: int,
    WIDTH: int,
    AHEAD: int,
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
    shared = kl.local((WIDTH,), KIND)
    length, tile = x.shape[x.ndim - 1], AHEAD * WIDTH * LANES
    section = kl.cdiv(kl.cdiv(length, tile), sections) * tile
    begin = s * section
    stop = begin + kl.minimum(section, length - begin)
    own = merged_of(x, outer, begin, stop, tile, MERGE, MAP, KIND, INITIAL, LANES, WIDTH, AHEAD)
    merge_in_rows(shared, own, MERGE, WIDTH)
    if item == 0:
        parts[*outer, s] = shared[0]
    if arrived_last(counts, row, sections):
        rest = kl.cast(INITIAL, KIND)
        for q in range(item, sections, WIDTH):
            rest = MERGE(rest, parts[*outer, q])
        merge_in_rows(shared, rest, MERGE, WIDTH)
        if item == 0:
            out[*outer] = shared[0]


@kernel
def best_together(
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
    `reduce_together`; positions are counted in `PLACE`.
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
    best_values = kl.local((WIDTH * TALL,), x.dtype)
    best_places = kl.local((WIDTH * TALL,), PLACE)
    if inside:
        outer = unravelled(row, lead)
        stop = kl.minimum(s * SECTION + SECTION, length)
        # Who has nothing of its own to look at takes part with the section's first element.
        r = s * SECTION + across * LANES
        here = kl.where(r < stop, r, s * SECTION)
        value = x[*outer, here]
        place = kl.cast(here, PLACE) if places is None else kl.cast(places[*outer, here], PLACE)
        if LANES > 1:
            full = kl.minimum(stop, length - (LANES - 1))
            ascending = ()
            for lane in kl.static_range(LANES):
                ascending = (*ascending, kl.cast(lane, PLACE))  # type: ignore[assignment]
            steps = kl.vector(*ascending)
            lane_values = kl.splat(value, LANES)
            lane_places = kl.splat(place, LANES)
            while r < full:
                new = kl.vload(x, *outer, r, lanes=LANES)
                won = wins(new, lane_values, LARGEST)
                lane_values = kl.where(won, new, lane_values)
                lane_places = kl.where(won, steps + kl.cast(r, PLACE), lane_places)
                r = r + WIDTH * LANES
            for lane in kl.static_range(LANES):
                new_value, new_place = lane_values[lane], lane_places[lane]
                better = surpasses(new_value, new_place, value, place, LARGEST)
                value = kl.where(better, new_value, value)
                place = kl.where(better, new_place, place)
        width = 1 if LANES > 1 else WIDTH
        end = kl.minimum(r + LANES, stop) if LANES > 1 else stop
        for q in range(r, end, width):
            new_one = x[*outer, q]
            new_at = kl.cast(q, PLACE) if places is None else kl.cast(places[*outer, q], PLACE)
            ahead = wins(new_one, value, LARGEST)
            value = kl.where(ahead, new_one, value)
            place = kl.where(ahead, new_at, place)
        best_values[item] = value
        best_places[item] = place
    kl.barrier()
    half = WIDTH
    for _ in kl.static_range(10):
        if half > 1:
            half = half // 2
            if inside and across < half:
                theirs, at = best_values[item + half], best_places[item + half]
                if surpasses(theirs, at, best_values[item], best_places[item], LARGEST):
                    best_values[item] = theirs
                    best_places[item] = at
            kl.barrier()
    if inside and across == 0:
        index = unravelled(row, lead)
        values[*index, s] = best_values[item]
        out[*index, s] = kl.cast(best_places[item], kl.i64)


@function
def surpasses(x: Any, x_place: Any, y: Any, y_place: Any, LARGEST: Any) -> Any:
    """Whether `x` wins over `y`, the first of equals and of NaNs winning."""
    tied = (x == y) | ((x != x) & (y != y))
    return wins(x, y, LARGEST) | (tied & (x_place < y_place))
