"""Running totals on processors: each work-item holds a block of a row in its core's caches.

Work-items draw blocks in order. While one writes the running totals of its block, which its core's
caches hold since it added it up, it adds up the one that it has drawn next: memory is read once and
written once, both at the same time. Before that it needs the row's total before the block, which
whoever has the block before publishes as soon as it knows its own. It looks for that a while, and
then adds up itself what is missing, as in T. Smith, R. L. Levien, J. D. Owens, "Decoupled fallback:
a portable single-pass GPU scan", SPAA 2025: a core that is busy elsewhere keeps none waiting.

Totals are published in pieces of 32 bits, each in one word with a mark, so that atomics need no
order. Blocks are added up in the same way by everyone: results do not depend on timing.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.reductions.reduction_kernels import folded
from portable.primitives.scans.lookback_kernels import joined, looked_at, publish
from portable.primitives.scans.scan_kernels import last_of, running_totals

__all__ = ["scan_blocks_in_turn", "scan_rows"]

_LOW = 0xFFFFFFFF
"""The lower half of a word."""


@function
def ticket_drawn(state: Any, draws: Any) -> Any:
    """The number of a block, above it that of the launch; the last draw begins the next launch."""
    ticket = kl.atomic_add(state, 0, 1)
    number = ticket & _LOW
    if number + 1 == kl.cast(draws, kl.u64):
        kl.atomic_add(state, 0, _LOW - number)
    return ticket


@function
def spread(value: Any, LANES: Any) -> Any:
    """A number in every lane."""
    return kl.splat(value, LANES) if LANES > 1 else value


@function
def taken(x: Any, outer: Any, r: Any, LANES: Any, KIND: Any, AHEAD: Any = 0) -> Any:
    """A vector of a row, or an element."""
    if LANES > 1:
        return kl.cast(kl.vload(x, *outer, r, lanes=LANES, ahead=AHEAD), KIND)
    return kl.cast(x[*outer, r], KIND)


@function
def written(
    out: Any,
    outer: Any,
    r: Any,
    before: Any,
    carried: Any,
    totals: Any,
    MERGE: Any,
    LANES: Any,
    STREAMING: Any,
) -> Any:
    """Writes the totals of a vector of a block; gives what the block comes to up to its end.

    `before` is the total before the block, `carried` that of the block before the vector: apart,
    since a block's own totals are smaller, and rounded less, than those of the row.
    """
    done = MERGE(before, MERGE(carried, totals))
    if LANES > 1:
        kl.vstore(out, *outer, r, done, streaming=STREAMING)
    else:
        out[*outer, r] = done
    return MERGE(carried, spread(last_of(totals, LANES), LANES))


@function
def rest_written(
    x: Any,
    out: Any,
    outer: Any,
    begin: Any,
    stop: Any,
    before: Any,
    carried: Any,
    MERGE: Any,
    KIND: Any,
    INITIAL: Any,
    LANES: Any,
    SHIFT: Any,
    STREAMING: Any,
) -> Any:
    """Writes the running totals from `begin` to a block's `stop`; gives the block's own."""
    whole = begin + (stop - begin) // LANES * LANES
    for r in range(begin, whole, LANES):
        totals = running_totals(taken(x, outer, r, LANES, KIND), LANES, KIND, INITIAL, MERGE)
        place = r + SHIFT
        carried = written(out, outer, place, before, carried, totals, MERGE, LANES, STREAMING)
    one = last_of(carried, LANES)
    first = last_of(before, LANES)
    for r in range(whole, stop):
        one = MERGE(one, kl.cast(x[*outer, r], KIND))
        out[*outer, r + SHIFT] = MERGE(first, one)
    return one


@function
def rest_added_up(
    x: Any, outer: Any, begin: Any, stop: Any, sums: Any, MERGE: Any, KIND: Any, LANES: Any
) -> Any:
    """What the lanes of `sums` and the elements from `begin` to `stop` come to."""
    whole = begin + (stop - begin) // LANES * LANES
    for r in range(begin, whole, LANES):
        sums = MERGE(sums, taken(x, outer, r, LANES, KIND))
    total = folded(sums, LANES, MERGE)
    for r in range(whole, stop):
        total = MERGE(total, kl.cast(x[*outer, r], KIND))
    return total


@function
def added_up(
    x: Any, outer: Any, block: Any, MERGE: Any, KIND: Any, INITIAL: Any, LANES: Any, BLOCK: Any
) -> Any:
    """The total of a block of a row."""
    begin = block * BLOCK
    stop = kl.minimum(begin + BLOCK, x.shape[x.ndim - 1])
    nothing = spread(kl.cast(INITIAL, KIND), LANES)
    return rest_added_up(x, outer, begin, stop, nothing, MERGE, KIND, LANES)


@function
def before_block(
    x: Any,
    state: Any,
    outer: Any,
    row: Any,
    block: Any,
    mark: Any,
    MERGE: Any,
    KIND: Any,
    INITIAL: Any,
    LANES: Any,
    BLOCK: Any,
    PATIENCE: Any,
) -> Any:
    """The row's total before a block, if need be from the last one published; `row` is its slot."""
    PIECES = KIND.itemsize // 4
    words = kl.private((PIECES,), kl.u64)
    total = kl.cast(INITIAL, KIND)
    known = block
    missing = block > 0
    looks = 0
    while missing:
        missing = not looked_at(state, row + known - 1, mark, words, 0, PIECES)
        if not missing:
            total = joined(words, 0, KIND)
        elif looks < PATIENCE:
            looks = looks + 1
        else:
            known = known - 1
            missing = known > 0
    for b in range(known, block):
        total = MERGE(total, added_up(x, outer, b, MERGE, KIND, INITIAL, LANES, BLOCK))
        publish(state, row + b, total, mark, KIND)
    return total


@kernel
def scan_blocks_in_turn(
    x: Any,
    state: Any,
    out: Any,
    *,
    MERGE: Any,
    KIND: Any,
    INITIAL: Any,
    LANES: int,
    BLOCK: int,
    PATIENCE: int,
    AHEAD: int,
    SHIFT: int,
    STREAMING: bool,
) -> None:
    """Running totals of the last axis, in blocks of `BLOCK` elements for which work-items draw.

    `state` has a word for the tickets and, for each block, one for each piece of 32 bits of a
    number; it holds zeros before the first launch and stays as it is until the next over as many
    blocks by as many work-items. A total is looked for `PATIENCE` times before what is missing is
    added up. Elements are sent for `AHEAD` of them before. `SHIFT` is 1 where the first element of
    `out` is the total of nothing.
    """
    lead = x.shape[: x.ndim - 1]
    length = x.shape[x.ndim - 1]
    blocks = kl.cdiv(length, BLOCK)
    total = product_of(lead) * blocks
    nothing = kl.cast(INITIAL, KIND)
    # Each work-item draws a ticket at first, and one more for each block that it gets.
    draws = total + kl.num_groups(0)
    ticket = ticket_drawn(state, draws)
    mark = ((ticket >> 32) + 1) & _LOW
    number = kl.cast(ticket & _LOW, draws.dtype)
    own = nothing
    if number < total:
        first = unravelled(number // blocks, lead)
        own = added_up(x, first, number % blocks, MERGE, KIND, INITIAL, LANES, BLOCK)
    while number < total:
        outer = unravelled(number // blocks, lead)
        block = number % blocks
        before = before_block(
            x, state, outer, number - block, block, mark,
            MERGE, KIND, INITIAL, LANES, BLOCK, PATIENCE,
        )  # fmt: skip
        publish(state, number, MERGE(before, own), mark, KIND)
        if SHIFT == 1 and block == 0:
            out[*outer, 0] = nothing
        number = kl.cast(ticket_drawn(state, draws) & _LOW, draws.dtype)
        next_outer = unravelled(kl.minimum(number, total - 1) // blocks, lead)
        begin, next_begin = block * BLOCK, number % blocks * BLOCK
        stop = kl.minimum(begin + BLOCK, length)
        next_stop = kl.minimum(next_begin + BLOCK, length)
        if number >= total:
            next_stop = next_begin
        both = 0
        raised, carried = spread(before, LANES), spread(nothing, LANES)
        sums = carried
        # Scalars that are added up in two loops come out otherwise than in one: Intel's compiler
        # (2026.22.10) adds up parts of a loop's side by side.
        if LANES > 1:
            both = kl.minimum(stop - begin, next_stop - next_begin) // LANES * LANES
            for r in range(0, both, LANES):
                mine = taken(x, outer, begin + r, LANES, KIND)
                new = taken(x, next_outer, next_begin + r, LANES, KIND, AHEAD)
                totals = running_totals(mine, LANES, KIND, INITIAL, MERGE)
                place = begin + r + SHIFT
                carried = written(
                    out, outer, place, raised, carried, totals, MERGE, LANES, STREAMING
                )
                sums = MERGE(sums, new)
        rest_written(
            x, out, outer, begin + both, stop, raised, carried,
            MERGE, KIND, INITIAL, LANES, SHIFT, STREAMING,
        )  # fmt: skip
        own = rest_added_up(x, next_outer, next_begin + both, next_stop, sums, MERGE, KIND, LANES)


@kernel
def scan_rows(
    x: Any,
    out: Any,
    *,
    MERGE: Any,
    KIND: Any,
    INITIAL: Any,
    LANES: int,
    BLOCK: int,
    ROWS: int,
    SHIFT: int,
    STREAMING: bool,
) -> None:
    """Running totals of the last axis: a work-item sweeps over each of `ROWS` rows.

    In blocks of `BLOCK` elements, a multiple of `LANES`, so that sums are rounded less.
    `SHIFT` is 1 where the first element of `out` is the total of nothing.
    """
    kl.static_assert(BLOCK % LANES == 0, "blocks are whole vectors")
    lead = x.shape[: x.ndim - 1]
    length = x.shape[x.ndim - 1]
    first = kl.global_id(0) * ROWS
    nothing = kl.cast(INITIAL, KIND)
    for row in range(first, kl.minimum(first + ROWS, product_of(lead))):
        outer = unravelled(row, lead)
        if SHIFT == 1:
            out[*outer, 0] = nothing
        before, fresh = nothing, spread(nothing, LANES)
        for begin in range(0, length, BLOCK):
            stop = kl.minimum(begin + BLOCK, length)
            own = rest_written(
                x, out, outer, begin, stop, spread(before, LANES), fresh,
                MERGE, KIND, INITIAL, LANES, SHIFT, STREAMING,
            )  # fmt: skip
            before = MERGE(before, own)
