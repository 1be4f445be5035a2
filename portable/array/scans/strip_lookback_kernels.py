"""Running totals of columns in one pass: workgroups read the totals of the tiles above their own.

After D. Merrill, M. Garland, "Single-pass parallel prefix scan with decoupled look-back", NVIDIA
technical report NVR-2016-002. A strip of neighbouring columns is cut into tiles, which are handed
out in order, all strips' first tiles before their second ones. A workgroup says what its tile comes
to, looks back at the tiles above to the nearest one whose total from the top is known, adds up what
is between, and says its own total from the top. Totals are added up from the top in either case, so
that results do not depend on timing.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.array.base.elementwise_kernel import product_of, unravelled
from portable.array.reductions.reduction_kernels import read
from portable.array.reductions.strip_kernels import vector_of, vector_put
from portable.array.scans.lookback_kernels import drawn, handed_out
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["scan_strips_in_turn"]

_UNKNOWN, _OWN, _FROM_TOP = 0, 1, 2
"""What is known of a tile: nothing, what it comes to, its total from the top."""
_LOW = 0xFFFFFFFF
"""The lower half of a word."""


@function
def told(state: Any, tile: Any, what: Any, mark: Any) -> None:
    """Says what is known of a tile; what the workgroup has written before can then be read."""
    kl.barrier()
    if kl.local_id(0) == 0:
        kl.atomic_store(state, 1 + tile, mark * 4 + what, order="release")


@function
def known_of(state: Any, tile: Any, mark: Any) -> Any:
    """What is known of a tile in this launch."""
    word = kl.atomic_load(state, 1 + tile, order="acquire")
    return kl.where(word // 4 == mark, kl.cast(word & 3, kl.i32), _UNKNOWN)


@function
def looked_back(
    state: Any, number: Any, above: Any, strips: Any, mark: Any, status: Any, REACH: Any
) -> Any:
    """How many tiles up the nearest one is whose total from the top is known, once it is.

    What the tiles between come to is known as well. `above` tiles are above number `number`; the
    one above all of them has the total of nothing.
    """
    item = kl.local_id(0)
    distance = 0
    while distance == 0:
        if item < REACH:
            status[item] = _FROM_TOP
            if item < above:
                status[item] = known_of(state, number - (item + 1) * strips, mark)
        kl.barrier()
        reach = 0
        while reach < REACH - 1 and status[reach] == _OWN:
            reach = reach + 1
        found = kl.where(status[reach] == _FROM_TOP, reach + 1, 0)
        distance = kl.assume_uniform(found)
        kl.barrier()
    return distance


@function
def total_above(
    owns: Any,
    tops: Any,
    number: Any,
    above: Any,
    distance: Any,
    strips: Any,
    across: Any,
    MERGE: Any,
    KIND: Any,
    INITIAL: Any,
    LANES: Any,
) -> Any:
    """The totals from the top of this work-item's columns before its tile."""
    neutral = kl.cast(INITIAL, KIND)
    total = kl.splat(neutral, LANES) if LANES > 1 else neutral
    if distance <= above:
        total = vector_of(tops, number - distance * strips, across, LANES)
    for q in kl.range(1, distance, unroll=4):
        total = MERGE(total, vector_of(owns, number - (distance - q) * strips, across, LANES))
    return total


@function
def written(out: Any, outer: Any, r: Any, values: Any, LANES: Any) -> None:
    """Writes `LANES` neighbours."""
    if LANES > 1:
        kl.vstore(out, *outer, r, values, axis=out.ndim - 2)
    else:
        out[*outer, r] = values


@kernel
def scan_strips_in_turn(
    x: Any,
    state: Any,
    owns: Any,
    tops: Any,
    out: Any,
    *,
    MERGE: Any,
    KIND: Any,
    INITIAL: Any,
    LANES: int,
    WIDTH: int,
    TALL: int,
    DEPTH: int,
    REACH: int,
    SHIFT: int,
) -> None:
    """Running totals of the last axis, neighbours lying along another, in tiles.

    A workgroup has `TALL` rows of `WIDTH` work-items, of which each holds `DEPTH` vectors of
    `LANES` neighbours, one below the other. `state` has a word for the tickets and one for each
    tile; it holds zeros before the first launch and stays as it is until the next over as many
    tiles by as many workgroups. `owns` and `tops` have a row for each tile. As many as `REACH`
    tiles are looked at together. `SHIFT` is 1 where the first element of `out` is the total of
    nothing.
    """
    lead = x.shape[: x.ndim - 1]
    length = x.shape[x.ndim - 1]
    columns = product_of(lead)
    strips = kl.cdiv(columns, LANES * WIDTH)
    total = strips * kl.cdiv(length, TALL * DEPTH)
    across = kl.local_id(0) % WIDTH * LANES
    down = kl.local_id(0) // WIDTH
    sums = kl.local((TALL, WIDTH * LANES), KIND)
    status = kl.local((REACH,), kl.i32)
    held = kl.private((DEPTH,), KIND, lanes=LANES)
    nothing = kl.cast(INITIAL, KIND)
    neutral = kl.splat(nothing, LANES) if LANES > 1 else nothing
    # Each workgroup draws one ticket at first, and one more for each tile that it gets.
    draws = total + kl.num_groups(0)
    ticket = drawn(state)
    mark = ((kl.workgroup_uniform(ticket) >> 32) + 1) & _LOW
    number = handed_out(ticket, state, draws)
    while number < total:
        ticket = drawn(state)
        strip, above = number % strips, number // strips
        column = strip * (WIDTH * LANES) + across
        inside = column < columns
        outer = unravelled(column, lead)
        first = above * (TALL * DEPTH) + down * DEPTH
        count = kl.minimum(length - first, DEPTH) if inside else 0
        if count >= DEPTH:
            for k in kl.static_range(DEPTH):
                held[k] = read(x, outer, first + k, LANES, x.ndim - 2, KIND, None)
        else:
            for k in kl.static_range(DEPTH):
                held[k] = neutral
                if k < count:
                    held[k] = read(x, outer, first + k, LANES, x.ndim - 2, KIND, None)
        for k in kl.static_range(1, DEPTH):
            held[k] = MERGE(held[k - 1], held[k])
        vector_put(sums, down, across, held[DEPTH - 1], LANES)
        kl.barrier()
        before = neutral
        for k in kl.static_range(TALL - 1):
            if k < down:
                before = MERGE(before, vector_of(sums, k, across, LANES))
        for k in kl.static_range(DEPTH):
            held[k] = MERGE(before, held[k])
        if down == TALL - 1:
            vector_put(owns, number, across, held[DEPTH - 1], LANES)
        told(state, number, _OWN, mark)
        distance = looked_back(state, number, above, strips, mark, status, REACH)
        carried = total_above(
            owns, tops, number, above, distance, strips, across, MERGE, KIND, INITIAL, LANES
        )
        for k in kl.static_range(DEPTH):
            held[k] = MERGE(carried, held[k])
        if down == TALL - 1:
            vector_put(tops, number, across, held[DEPTH - 1], LANES)
        told(state, number, _FROM_TOP, mark)
        if SHIFT == 1 and above == 0 and down == 0 and inside:
            written(out, outer, 0, neutral, LANES)
        for k in kl.static_range(DEPTH):
            if k < count:
                written(out, outer, first + k + SHIFT, held[k], LANES)
        number = handed_out(ticket, state, draws)
