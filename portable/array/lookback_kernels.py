"""Running totals in one pass: each workgroup waits for the totals of the tiles before its own.

D. Merrill, M. Garland, "Single-pass parallel prefix scan with decoupled look-back", NVIDIA
technical report NVR-2016-002. A tile publishes its own total as soon as it has that. The last tile
of a block of them publishes the block's total, and the total of the row up to the block's end when
it knows what comes before. Workgroups number themselves as they start, so that whom they wait for
is running already.

A number is published in pieces of 32 bits, each in one word with a status, so that atomics need no
order. Tiles of a block, and blocks from the last one on of which the row's total is known, are
added up from the left: results do not depend on timing, as they would in the report's way.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.array.elementwise_kernel import unravelled
from portable.array.scan_kernels import before_vector, padded, stored, tile_added_up, tile_loaded
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["OWN", "UP_TO", "scan_in_turn"]

OWN = 1
"""The status of a tile or block whose own total is published."""
UP_TO = 2
"""The status of a block up to whose end the row's total is published."""


@function
def pieces_of(value: Any, KIND: Any) -> Any:
    """The bits of a number, 32 at a time."""
    if KIND.is_complex:
        return (*pieces_of(kl.real(value), KIND.real), *pieces_of(kl.imag(value), KIND.real))
    if KIND.itemsize == 4:
        return (kl.cast(kl.bitcast(value, kl.u32), kl.u64),)
    bits = kl.bitcast(value, kl.u64)
    return (bits & 0xFFFFFFFF, bits >> 32)


@function
def joined(words: Any, first: Any, KIND: Any) -> Any:
    """The number whose pieces are in the lower halves of `words` from `first` on."""
    if KIND.is_complex:
        real = joined(words, first, KIND.real)
        imag = joined(words, first + KIND.real.itemsize // 4, KIND.real)
        return kl.complex(real, imag)
    low = words[first] & 0xFFFFFFFF
    if KIND.itemsize == 4:
        return kl.bitcast(kl.cast(low, kl.u32), KIND)
    return kl.bitcast(low | (words[first + 1] << 32), KIND)


@function
def publish(state: Any, slot: Any, value: Any, status: Any, KIND: Any) -> None:
    """Lets others see a total."""
    PIECES = KIND.itemsize // 4
    pieces = pieces_of(value, KIND)
    for p in kl.static_range(PIECES):
        word = pieces[p] | kl.cast(status << 32, kl.u64)
        kl.atomic_store(state, 1 + slot * PIECES + p, word)


@function
def awaited(state: Any, slot: Any, words: Any, KIND: Any) -> Any:
    """The status of a slot once it has one, its pieces in `words`, all published together."""
    PIECES = KIND.itemsize // 4
    status = 0
    while status == 0:
        for p in kl.static_range(PIECES):
            words[p] = kl.atomic_load(state, 1 + slot * PIECES + p)
        status = kl.cast(words[0] >> 32, kl.i32)
        for p in kl.static_range(1, PIECES):
            if kl.cast(words[p] >> 32, kl.i32) != status:
                status = 0
    return status


@function
def before_in_block(
    state: Any, slot: Any, count: Any, window: Any, MERGE: Any, KIND: Any, INITIAL: Any
) -> Any:
    """The total of `count` tiles from `slot` on; only the first work-item's counts."""
    item = kl.local_id(0)
    words = kl.private((KIND.itemsize // 4,), kl.u64)
    if item < count:
        awaited(state, slot + item, words, KIND)
        window[item] = joined(words, 0, KIND)
    kl.barrier()
    before = kl.cast(INITIAL, KIND)
    if item == 0 and count > 0:
        before = window[0]
        for k in kl.range(1, count, unroll=8):
            before = MERGE(before, window[k])
    kl.barrier()
    return before


@function
def before_block(
    state: Any,
    slot: Any,
    block: Any,
    window: Any,
    nearest: Any,
    MERGE: Any,
    KIND: Any,
    INITIAL: Any,
    BLOCK: Any,
) -> Any:
    """The row's total before block number `block`, at `slot`; only the first work-item's counts.

    As many blocks are looked at until one of them has the row's total up to its end.
    """
    item = kl.local_id(0)
    words = kl.private((KIND.itemsize // 4,), kl.u64)
    reach = kl.minimum(block, BLOCK)
    found = reach
    while found >= reach and reach > 0:
        if item == 0:
            nearest[0] = BLOCK
        kl.barrier()
        if item < reach:
            status = awaited(state, slot - 1 - item, words, KIND)
            window[item] = joined(words, 0, KIND)
            if status == UP_TO:
                kl.atomic_min(nearest, 0, item, scope="workgroup")
        kl.barrier()
        found = kl.workgroup_uniform(nearest[0])
    before = kl.cast(INITIAL, KIND)
    if item == 0 and reach > 0:
        before = window[found]
        for k in kl.range(found, unroll=8):
            before = MERGE(before, window[found - 1 - k])
    return before


@kernel
def scan_in_turn(
    x: Any,
    state: Any,
    out: Any,
    *,
    MERGE: Any,
    KIND: Any,
    INITIAL: Any,
    LANES: int,
    WIDTH: int,
    STRIPS: int,
    BLOCK: int,
    SHIFT: int,
) -> None:
    """Running totals of the last axis, a tile for each workgroup of `WIDTH`.

    `state` holds zeros: one, and for each tile and each block of `BLOCK` tiles of a row one per
    piece of 32 bits of a number. `SHIFT` is 1 where the first element of `out` is the total of
    nothing.
    """
    lead = x.shape[: x.ndim - 1]
    length = x.shape[x.ndim - 1]
    TILE = WIDTH * STRIPS * LANES
    tiles = kl.cdiv(length, TILE)
    item = kl.local_id(0)
    ticket = kl.group_id(0)
    if item == 0:
        ticket = kl.cast(kl.atomic_add(state, 0, 1), ticket.dtype)
    number = kl.workgroup_uniform(ticket)
    row, tile = number // tiles, number % tiles
    outer = unravelled(row, lead)
    totals = kl.local((padded(STRIPS * WIDTH, STRIPS),), KIND)
    sums = kl.local((WIDTH,), KIND)
    begin = tile * TILE
    mine = tile_loaded(x, outer, begin, length, MERGE, KIND, INITIAL, LANES, WIDTH, STRIPS)
    tile_added_up(mine, totals, sums, MERGE, KIND, INITIAL, LANES, WIDTH, STRIPS)
    window = kl.local((BLOCK,), KIND)
    nearest = kl.local((1,), kl.i32)
    start = kl.local((1,), KIND)
    if item == 0:
        publish(state, number, sums[WIDTH - 1], OWN, KIND)
    block, place = tile // BLOCK, tile % BLOCK
    inner = before_in_block(state, number - place, place, window, MERGE, KIND, INITIAL)
    whole = MERGE(inner, sums[WIDTH - 1])
    closes = item == 0 and place == BLOCK - 1
    slot = kl.num_groups(0) + row * kl.cdiv(tiles, BLOCK) + block
    if closes:
        publish(state, slot, whole, UP_TO if block == 0 else OWN, KIND)
    before = before_block(state, slot, block, window, nearest, MERGE, KIND, INITIAL, BLOCK)
    if closes and block > 0:
        publish(state, slot, MERGE(before, whole), UP_TO, KIND)
    if item == 0:
        start[0] = MERGE(before, inner)
        if SHIFT == 1 and tile == 0:
            out[*outer, 0] = kl.cast(INITIAL, KIND)
    kl.barrier()
    carried = start[0]
    for strip in kl.static_range(STRIPS):
        r = begin + (strip * WIDTH + item) * LANES
        ahead = before_vector(strip, carried, totals, sums, MERGE, WIDTH, STRIPS)
        done = MERGE(kl.splat(ahead, LANES) if LANES > 1 else ahead, mine[strip])
        stored(out, outer, r + SHIFT, length + SHIFT, done, LANES)
