"""Running totals along the last axis in which the work-items of a workgroup share the work.

A tile is a part of a row that a workgroup holds in registers: `WIDTH` work-items take `STRIPS`
vectors of `LANES` each, neighbouring work-items neighbouring vectors.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled

__all__ = [
    "before_vector",
    "loaded",
    "padded",
    "raised",
    "running_totals",
    "scan_by_workgroup",
    "stored",
    "tile_added_up",
]


@function
def loaded(x: Any, outer: Any, r: Any, stop: Any, LANES: Any, KIND: Any, INITIAL: Any) -> Any:
    """`LANES` elements from `r` on, the neutral one beyond `stop`."""
    neutral = kl.cast(INITIAL, KIND)
    if LANES == 1:
        value = neutral
        if r < stop:
            value = kl.cast(x[*outer, r], KIND)
        return value
    vector = kl.splat(neutral, LANES)
    if r + LANES <= stop:
        vector = kl.cast(kl.vload(x, *outer, r, lanes=LANES), KIND)
    else:
        items = ()
        for lane in kl.static_range(LANES):
            one = neutral
            if r + lane < stop:
                one = kl.cast(x[*outer, r + lane], KIND)
            items = (*items, one)  # type: ignore[assignment]
        vector = kl.vector(*items)
    return vector


@function
def running_totals(values: Any, LANES: Any, KIND: Any, INITIAL: Any, MERGE: Any) -> Any:
    """In each lane the total up to it, by doubling steps."""
    totals = values
    reach = 1
    for _ in kl.static_range(4):
        if reach < LANES:
            items = ()
            for lane in kl.static_range(LANES):
                before = kl.cast(INITIAL, KIND) if lane < reach else totals[lane - reach]
                items = (*items, before)  # type: ignore[assignment]
            totals = MERGE(kl.vector(*items), totals)
            reach = reach * 2
    return totals


@function
def last_of(values: Any, LANES: Any) -> Any:
    """The last lane, or the number itself."""
    return values[LANES - 1] if LANES > 1 else values


@function
def stored(out: Any, outer: Any, r: Any, stop: Any, values: Any, LANES: Any) -> None:
    """Writes `LANES` elements from `r` on, none beyond `stop`."""
    if LANES == 1:
        if r < stop:
            out[*outer, r] = values
    elif r + LANES <= stop:
        kl.vstore(out, *outer, r, values)
    else:
        for lane in kl.static_range(LANES):
            if r + lane < stop:
                out[*outer, r + lane] = values[lane]


@function
def tile_loaded(
    x: Any,
    outer: Any,
    tile: Any,
    stop: Any,
    MERGE: Any,
    KIND: Any,
    INITIAL: Any,
    LANES: Any,
    WIDTH: Any,
    STRIPS: Any,
) -> Any:
    """This work-item's vectors of the tile that begins at `tile`, as running totals of each."""
    across = kl.local_id(0) % WIDTH
    raw = ()
    for strip in kl.static_range(STRIPS):
        r = tile + (strip * WIDTH + across) * LANES
        raw = (*raw, loaded(x, outer, r, stop, LANES, KIND, INITIAL))  # type: ignore[assignment]
    mine = ()
    for strip in kl.static_range(STRIPS):
        mine = (*mine, running_totals(raw[strip], LANES, KIND, INITIAL, MERGE))  # type: ignore[assignment]
    return mine


@function
def padded(at: Any, STRIPS: Any) -> Any:
    """Where a total is kept: a place is left out for every `STRIPS`, against bank conflicts."""
    return at + at // STRIPS if STRIPS > 1 else at


@function
def vector_place(strip: Any, WIDTH: Any, STRIPS: Any) -> Any:
    """Where the total of a vector of this work-item is kept."""
    item = kl.local_id(0)
    across = item % WIDTH
    row = (item - across) * STRIPS
    if WIDTH % STRIPS == 0:
        # Its parts, of which all but a constant are the same for every strip.
        return padded(row, STRIPS) + padded(across, STRIPS) + strip * padded(WIDTH, STRIPS)
    return padded(row + strip * WIDTH + across, STRIPS)


@function
def add_up(sums: Any, spare: Any, MERGE: Any, WIDTH: Any) -> Any:
    """Running totals of the numbers of `WIDTH` work-items each, four at a time; in one of both."""
    item = kl.local_id(0)
    across = item % WIDTH
    kl.barrier()
    reach = 1
    for _ in kl.static_range(5):
        if reach < WIDTH:
            total = sums[item]
            for k in kl.static_range(1, 4):
                if k * reach < WIDTH and across >= k * reach:
                    total = MERGE(sums[item - k * reach], total)
            spare[item] = total
            kl.barrier()
            sums, spare = spare, sums
            reach = reach * 4
    return sums


@function
def tile_added_up(
    mine: Any,
    totals: Any,
    sums: Any,
    spare: Any,
    MERGE: Any,
    KIND: Any,
    INITIAL: Any,
    LANES: Any,
    WIDTH: Any,
    STRIPS: Any,
) -> Any:
    """Running totals of `STRIPS` vectors each, in `sums` or `spare`; those within in `totals`.

    The last of a row's sums is the total of its tile.
    """
    item = kl.local_id(0)
    for strip in kl.static_range(STRIPS):
        totals[vector_place(strip, WIDTH, STRIPS)] = last_of(mine[strip], LANES)
    kl.barrier()
    below = kl.cast(INITIAL, KIND)
    for k in kl.static_range(STRIPS):
        place = padded(item * STRIPS, STRIPS) + k
        total = totals[place]
        totals[place] = below
        below = MERGE(below, total)
    sums[item] = below
    return add_up(sums, spare, MERGE, WIDTH)


@function
def before_vector(strip: Any, totals: Any, sums: Any, MERGE: Any, WIDTH: Any, STRIPS: Any) -> Any:
    """The total of what comes before a vector of this work-item in its tile."""
    item = kl.local_id(0)
    across = item % WIDTH
    at = (strip * WIDTH + across) // STRIPS
    if WIDTH % STRIPS == 0:
        at = strip * (WIDTH // STRIPS) + across // STRIPS
    before = totals[vector_place(strip, WIDTH, STRIPS)]
    if at > 0:
        before = MERGE(sums[item - across + at - 1], before)
    return before


@function
def raised(by: Any, values: Any, MERGE: Any, LANES: Any) -> Any:
    """A vector, or a number, with one number added in front."""
    return MERGE(kl.splat(by, LANES) if LANES > 1 else by, values)


@kernel
def scan_by_workgroup(
    x: Any,
    starts: Any,
    out: Any,
    *,
    MERGE: Any,
    KIND: Any,
    INITIAL: Any,
    LANES: int,
    WIDTH: int,
    TALL: int,
    STRIPS: int,
    SECTION: int,
    SHIFT: int,
) -> None:
    """Running totals within sections of the last axis, going on from `starts` where given.

    A workgroup does one section of `TALL` rows, in tiles. `SHIFT` is 1 where the first element of
    `out` is the total of nothing.
    """
    lead = x.shape[: x.ndim - 1]
    length = x.shape[x.ndim - 1]
    sections = kl.cdiv(length, SECTION)
    item = kl.local_id(0)
    across = item % WIDTH
    group = kl.group_id(0)
    s = group % sections
    row = group // sections * TALL + item // WIDTH
    inside = row < product_of(lead)
    outer = unravelled(row, lead)
    totals = kl.local((padded(STRIPS * WIDTH * TALL, STRIPS),), KIND)
    halves = kl.local((2, WIDTH * TALL), KIND)
    carried = kl.cast(INITIAL, KIND)
    if starts is not None and s > 0 and inside:
        carried = kl.cast(starts[*outer, s - 1], KIND)
    if SHIFT == 1 and s == 0 and across == 0 and inside:
        out[*outer, 0] = carried
    first = s * SECTION
    end = kl.minimum(first + SECTION, length)
    stop = kl.where(inside, end, first)
    for tile in range(first, end, WIDTH * STRIPS * LANES):
        mine = tile_loaded(x, outer, tile, stop, MERGE, KIND, INITIAL, LANES, WIDTH, STRIPS)
        sums = tile_added_up(
            mine, totals, halves[0], halves[1], MERGE, KIND, INITIAL, LANES, WIDTH, STRIPS
        )
        for strip in kl.static_range(STRIPS):
            r = tile + (strip * WIDTH + across) * LANES
            own = before_vector(strip, totals, sums, MERGE, WIDTH, STRIPS)
            done = raised(MERGE(carried, own), mine[strip], MERGE, LANES)
            stored(out, outer, r + SHIFT, stop + SHIFT, done, LANES)
        # The next tile's sums are written behind a barrier, which all come to after reading these.
        carried = MERGE(carried, sums[item - across + WIDTH - 1])
