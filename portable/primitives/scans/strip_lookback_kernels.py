"""Running totals of columns in one pass: workgroups read the totals of the tiles above their own.

After D. Merrill, M. Garland, "Single-pass parallel prefix scan with decoupled look-back", NVIDIA
technical report NVR-2016-002. A strip of neighbouring columns is cut into tiles, which are handed
out in order, all strips' first tiles before their second ones. A workgroup says what the columns of
its tile come to, reads the same of the tiles above up to one whose totals from the top are known,
adds these up, and says its own totals from the top. They are added up from the top in either case,
so that results do not depend on timing. As in `lookback_kernels`, numbers are published in words
with a mark, so that atomics need no order.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.reductions.reduction_kernels import read
from portable.primitives.reductions.strip_kernels import vector_of, vector_put
from portable.primitives.scans.lookback_kernels import drawn, handed_out, joined, pieces_of

__all__ = ["scan_strips_in_turn"]

_OF_TILE, _FROM_TOP = 0, 1
"""What is published of a column: what it comes to in a tile, and from the top on."""
_LOW = 0xFFFFFFFF
"""The lower half of a word."""


@function
def slot(number: Any, total: Any, what: Any, KIND: Any, LANES: Any, WIDTH: Any) -> Any:
    """Where the first word about this work-item's columns of a tile lies; `WIDTH` to the next."""
    words = WIDTH * LANES * (KIND.itemsize // 4)
    return 1 + (what * total + number) * words + kl.local_id(0) % WIDTH


@function
def published(
    state: Any, first: Any, values: Any, mark: Any, KIND: Any, LANES: Any, WIDTH: Any
) -> None:
    """Lets others see totals."""
    PIECES = KIND.itemsize // 4
    for lane in kl.static_range(LANES):
        pieces = pieces_of(values[lane] if LANES > 1 else values, KIND)
        for p in kl.static_range(PIECES):
            word = pieces[p] | (mark << 32)
            kl.atomic_store(state, first + (lane * PIECES + p) * WIDTH, word)


@function
def seen(state: Any, first: Any, mark: Any, patient: Any, KIND: Any, LANES: Any, WIDTH: Any) -> Any:
    """The totals in a slot, and whether they have been published; waits for that if `patient`."""
    PIECES = KIND.itemsize // 4
    words = kl.private((LANES * PIECES,), kl.u64)
    complete = False
    waiting = True
    while waiting:
        complete = True
        for k in kl.static_range(LANES * PIECES):
            words[k] = kl.atomic_load(state, first + k * WIDTH)
        for k in kl.static_range(LANES * PIECES):
            complete = complete & ((words[k] >> 32) == mark)
        waiting = patient & (not complete)
    values = ()
    for lane in kl.static_range(LANES):
        values = (*values, joined(words, lane * PIECES, KIND))  # type: ignore[assignment]
    return kl.vector(*values) if LANES > 1 else values[0], complete  # type: ignore[misc]


@function
def total_above(
    totals: Any, known: Any, across: Any, MERGE: Any, LANES: Any, WIDTH: Any, REACH: Any
) -> Any:
    """The totals from the top of this work-item's columns before its tile.

    Of the tile `d` above, row ``2 * d - 2`` of `totals` has what it comes to, the next row those
    from the top where they are `known`, as they are of the one `REACH` above.
    """
    item = kl.local_id(0) % WIDTH
    distance = 1
    while distance < REACH and known[distance - 1, item] == 0:
        distance = distance + 1
    total = vector_of(totals, 2 * distance - 1, across, LANES)
    for q in range(1, distance):
        total = MERGE(total, vector_of(totals, 2 * (distance - q) - 2, across, LANES))
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
    out: Any,
    *,
    MERGE: Any,
    KIND: Any,
    INITIAL: Any,
    LANES: int,
    WIDTH: int,
    TALL: int,
    DEPTH: int,
    SHIFT: int,
) -> None:
    """Running totals of the last axis, neighbours lying along another, in tiles.

    A workgroup has `TALL` rows of `WIDTH` work-items, of which each holds `DEPTH` vectors of
    `LANES` neighbours, one below the other. `TALL` is even: half as many tiles are looked at.
    `state` has a word for the tickets, and for each tile and column two for each piece of 32 bits
    of a number; it holds zeros before the first launch and stays as it is until the next over as
    many tiles by as many workgroups. `SHIFT` is 1 where the first element of `out` is the total of
    nothing.
    """
    kl.static_assert(TALL >= 2 and TALL % 2 == 0, "two rows of work-items look at each tile above")
    lead = x.shape[: x.ndim - 1]
    length = x.shape[x.ndim - 1]
    columns = product_of(lead)
    strips = kl.cdiv(columns, LANES * WIDTH)
    total = strips * kl.cdiv(length, TALL * DEPTH)
    item = kl.local_id(0) % WIDTH
    across = item * LANES
    down = kl.local_id(0) // WIDTH
    sums = kl.local((TALL, WIDTH * LANES), KIND)
    others = kl.local((TALL, WIDTH * LANES), KIND)
    known = kl.local((TALL // 2, WIDTH), kl.i32)
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
        whole = MERGE(before, held[DEPTH - 1])
        if down == TALL - 1:
            published(
                state,
                slot(number, total, _OF_TILE, KIND, LANES, WIDTH),
                whole,
                mark,
                KIND,
                LANES,
                WIDTH,
            )
        distance = down // 2 + 1
        what = down % 2
        value, complete = neutral, True
        if above >= distance:
            farthest = distance == TALL // 2
            value, complete = seen(
                state,
                slot(number - distance * strips, total, what, KIND, LANES, WIDTH),
                mark,
                (what == _OF_TILE) != farthest,
                KIND,
                LANES,
                WIDTH,
            )
        vector_put(others, down, across, value, LANES)
        if what == _FROM_TOP:
            known[distance - 1, item] = kl.cast(complete, kl.i32)
        kl.barrier()
        carried = total_above(others, known, across, MERGE, LANES, WIDTH, TALL // 2)
        if down == TALL - 1:
            published(
                state,
                slot(number, total, _FROM_TOP, KIND, LANES, WIDTH),
                MERGE(carried, whole),
                mark,
                KIND,
                LANES,
                WIDTH,
            )
        if SHIFT == 1 and above == 0 and down == 0 and inside:
            written(out, outer, 0, neutral, LANES)
        before = MERGE(carried, before)
        for k in kl.static_range(DEPTH):
            if k < count:
                done = MERGE(before, held[k])
                written(out, outer, first + k + SHIFT, done, LANES)
        number = handed_out(ticket, state, draws)
