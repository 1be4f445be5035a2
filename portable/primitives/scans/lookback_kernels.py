"""Running totals in one pass: workgroups read the totals of the tiles before their own.

After D. Merrill, M. Garland, "Single-pass parallel prefix scan with decoupled look-back", NVIDIA
technical report NVR-2016-002, with two changes. Workgroups stay, take tile after tile, and remember
the row's total before the last tiles that they saw complete: they look back only as far as there
are workgroups, at totals of tiles alone, of which none waits for another. And a workgroup finishes
a tile only when it has published the total of its next one, while the one after that is being
copied: what it looks back at has mostly been there for long.

Tiles are handed out in order, and a workgroup publishes and finishes its own in order, so that
there is always one that has nothing to wait for. Totals are published in pieces of 32 bits, each in
one word with a mark, so that atomics need no order. They are added up in an order in which timing
has no part, so that results do not depend on it.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.scans.scan_kernels import (
    before_vector,
    loaded,
    padded,
    raised,
    running_totals,
    stored,
    tile_added_up,
)

__all__ = ["scan_in_turn"]

_PARTS = 8
"""Into how many parts a block of totals is cut, a work-item each."""
_BANKS = 16
"""Numbers after which a place is left out, against bank conflicts."""
_LOW = 0xFFFFFFFF
"""The lower half of a word."""


@function
def drawn(state: Any) -> Any:
    """A ticket for the first work-item: the number of a tile, above it that of the launch."""
    ticket = kl.cast(0, kl.u64)
    if kl.local_id(0) == 0:
        ticket = kl.atomic_add(state, 0, 1)
    return ticket


@function
def handed_out(ticket: Any, state: Any, draws: Any) -> Any:
    """The tile on the first work-item's ticket; after the last ticket comes the next launch."""
    number = kl.workgroup_uniform(ticket) & _LOW
    if kl.local_id(0) == 0 and number + 1 == kl.cast(draws, kl.u64):
        kl.atomic_add(state, 0, _LOW - number)
    return kl.cast(number, draws.dtype)


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
def publish(state: Any, slot: Any, value: Any, mark: Any, KIND: Any) -> None:
    """Lets others see a total."""
    PIECES = KIND.itemsize // 4
    pieces = pieces_of(value, KIND)
    for p in kl.static_range(PIECES):
        kl.atomic_store(state, 1 + slot * PIECES + p, pieces[p] | (mark << 32))


@function
def looked_at(state: Any, slot: Any, mark: Any, words: Any, place: Any, PIECES: Any) -> Any:
    """Whether a total has been published; its pieces go into `words` from `place` on."""
    complete = True
    for p in kl.static_range(PIECES):
        words[place + p] = kl.atomic_load(state, 1 + slot * PIECES + p)
    for p in kl.static_range(PIECES):
        complete = complete & ((words[place + p] >> 32) == mark)
    return complete


@function
def gathered(
    state: Any,
    row: Any,
    first: Any,
    tile: Any,
    mark: Any,
    window: Any,
    KIND: Any,
    INITIAL: Any,
    WIDTH: Any,
    SPAN: Any,
) -> None:
    """Waits for the totals of the tiles from `first` to `tile`, at most `SPAN` blocks of them.

    `row` is the number of the row's first tile.
    """
    PIECES = KIND.itemsize // 4
    item = kl.local_id(0)
    words = kl.private((SPAN * PIECES,), kl.u64)
    complete = False
    while not complete:
        complete = True
        for b in kl.static_range(SPAN):
            at = first + b * WIDTH + item
            if at < tile:
                seen = looked_at(state, row + at, mark, words, b * PIECES, PIECES)
                complete = complete & seen
    kl.barrier()
    for b in kl.static_range(SPAN):
        value = kl.cast(INITIAL, KIND)
        if first + b * WIDTH + item < tile:
            value = joined(words, b * PIECES, KIND)
        window[b * padded(WIDTH, _BANKS) + padded(item, _BANKS)] = value
    kl.barrier()


@function
def added_in_parts(window: Any, parts: Any, MERGE: Any, WIDTH: Any, SPAN: Any) -> None:
    """Adds up each of `_PARTS` parts of each block."""
    item = kl.local_id(0)
    LENGTH = WIDTH // _PARTS
    if item < SPAN * _PARTS:
        begin = item % _PARTS * LENGTH
        place = item // _PARTS * padded(WIDTH, _BANKS)
        part = window[place + padded(begin, _BANKS)]
        for k in kl.static_range(1, LENGTH):
            part = MERGE(part, window[place + padded(begin + k, _BANKS)])
        parts[item] = part
    kl.barrier()


@function
def before_tile(
    state: Any,
    row: Any,
    tile: Any,
    mark: Any,
    known: Any,
    base: Any,
    window: Any,
    parts: Any,
    MERGE: Any,
    KIND: Any,
    INITIAL: Any,
    WIDTH: Any,
    SPAN: Any,
) -> Any:
    """The row's total before a tile; also how many blocks are `known`, and the total of those.

    Those before are `base`. A block is as many tiles as a workgroup has work-items.
    """
    carried = base
    first = known * WIDTH
    while first < tile:
        gathered(state, row, first, tile, mark, window, KIND, INITIAL, WIDTH, SPAN)
        added_in_parts(window, parts, MERGE, WIDTH, SPAN)
        for b in kl.static_range(SPAN):
            if first < tile:
                block = parts[b * _PARTS]
                for k in kl.static_range(1, _PARTS):
                    block = MERGE(block, parts[b * _PARTS + k])
                carried = MERGE(carried, block)
                first = first + WIDTH
                if first <= tile:
                    base = carried
                    known = known + 1
    return carried, known, base


@function
def sent_for(x: Any, buffer: Any, number: Any, tiles: Any, lead: Any, TILE: Any) -> None:
    """Starts to copy a tile into local memory, where there is one of this number."""
    if number < product_of(lead) * tiles:
        outer = unravelled(number // tiles, lead)
        begin = number % tiles * TILE
        kl.copy_async(buffer, x[*outer, begin : begin + TILE])
    kl.copy_commit()


@function
def taken_over(
    x: Any,
    number: Any,
    tiles: Any,
    buffer: Any,
    fresh: Any,
    MERGE: Any,
    KIND: Any,
    INITIAL: Any,
    LANES: Any,
    WIDTH: Any,
    STRIPS: Any,
) -> None:
    """Takes this work-item's vectors of a tile that has been copied, as running totals of each."""
    length = x.shape[x.ndim - 1]
    TILE = WIDTH * STRIPS * LANES
    begin = number % tiles * TILE
    item = kl.local_id(0)
    kl.copy_wait(0)
    kl.barrier()
    if begin + TILE <= length:
        for strip in kl.static_range(STRIPS):
            r = (strip * WIDTH + item) * LANES
            vector = kl.vload(buffer, r, lanes=LANES) if LANES > 1 else buffer[r]
            fresh[strip] = kl.cast(vector, KIND)
    else:
        outer = unravelled(number // tiles, x.shape[: x.ndim - 1])
        for strip in kl.static_range(STRIPS):
            r = begin + (strip * WIDTH + item) * LANES
            fresh[strip] = loaded(x, outer, r, length, LANES, KIND, INITIAL)
    for strip in kl.static_range(STRIPS):
        fresh[strip] = running_totals(fresh[strip], LANES, KIND, INITIAL, MERGE)
    kl.barrier()


@function
def announced(
    state: Any,
    number: Any,
    mark: Any,
    fresh: Any,
    totals: Any,
    halves: Any,
    MERGE: Any,
    KIND: Any,
    INITIAL: Any,
    LANES: Any,
    WIDTH: Any,
    STRIPS: Any,
) -> None:
    """Publishes the total of a tile and turns the running totals of vectors into those of it."""
    sums = tile_added_up(
        fresh, totals, halves[0], halves[1], MERGE, KIND, INITIAL, LANES, WIDTH, STRIPS
    )
    if kl.local_id(0) == 0:
        publish(state, number, sums[WIDTH - 1], mark, KIND)
    for strip in kl.static_range(STRIPS):
        own = before_vector(strip, totals, sums, MERGE, WIDTH, STRIPS)
        fresh[strip] = raised(own, fresh[strip], MERGE, LANES)


@function
def written(
    out: Any,
    row: Any,
    tile: Any,
    lead: Any,
    carried: Any,
    held: Any,
    MERGE: Any,
    KIND: Any,
    INITIAL: Any,
    LANES: Any,
    WIDTH: Any,
    STRIPS: Any,
    SHIFT: Any,
) -> None:
    """Writes a tile, `carried` before it."""
    outer = unravelled(row, lead)
    if SHIFT == 1 and tile == 0 and kl.local_id(0) == 0:
        out[*outer, 0] = kl.cast(INITIAL, KIND)
    for strip in kl.static_range(STRIPS):
        vector = (tile * STRIPS + strip) * WIDTH + kl.local_id(0)
        done = raised(carried, held[strip], MERGE, LANES)
        stored(out, outer, vector * LANES + SHIFT, out.shape[out.ndim - 1], done, LANES)


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
    SPAN: int,
    SHIFT: int,
) -> None:
    """Running totals of the last axis, in tiles for which workgroups of `WIDTH` draw tickets.

    `state` has a word for the tickets and, for each tile, one for each piece of 32 bits of a
    number; it holds zeros before the first launch and stays as it is until the next over as many
    tiles by as many workgroups. `SPAN` blocks of `WIDTH` tiles are looked at together. `SHIFT` is 1
    where the first element of `out` is the total of nothing.
    """
    kl.static_assert(WIDTH % _PARTS == 0, "blocks of tiles are cut into equal parts")
    kl.static_assert(WIDTH >= SPAN * _PARTS, "each part has a work-item")
    lead = x.shape[: x.ndim - 1]
    TILE = WIDTH * STRIPS * LANES
    VECTORS, WINDOW = padded(STRIPS * WIDTH, STRIPS), SPAN * padded(WIDTH, _BANKS)
    tiles = kl.cdiv(x.shape[x.ndim - 1], TILE)
    total = product_of(lead) * tiles
    buffer = kl.local((TILE,), x.dtype)
    totals = kl.local((max(VECTORS, WINDOW),), KIND)
    halves = kl.local((2, WIDTH), KIND)
    parts = kl.local((SPAN * _PARTS,), KIND)
    fresh = kl.private((STRIPS,), KIND, lanes=LANES)
    held = kl.private((STRIPS,), KIND, lanes=LANES)
    # Each workgroup draws three tickets at first, and one more for each tile that it gets.
    draws = total + 3 * kl.num_groups(0)
    ticket = drawn(state)
    mark = ((kl.workgroup_uniform(ticket) >> 32) + 1) & _LOW
    newest = handed_out(ticket, state, draws)
    ticket = drawn(state)
    sent_for(x, buffer, newest, tiles, lead, TILE)
    following = handed_out(ticket, state, draws)
    upcoming = handed_out(drawn(state), state, draws)
    waiting = total
    none = kl.cast(0, total.dtype)
    known_row, known, base = none, none, kl.cast(INITIAL, KIND)
    while newest < total or waiting < total:
        ticket = kl.cast(0, kl.u64)
        if newest < total:
            ticket = drawn(state)
            taken_over(x, newest, tiles, buffer, fresh, MERGE, KIND, INITIAL, LANES, WIDTH, STRIPS)
            sent_for(x, buffer, following, tiles, lead, TILE)
            announced(
                state,
                newest,
                mark,
                fresh,
                totals,
                halves,
                MERGE,
                KIND,
                INITIAL,
                LANES,
                WIDTH,
                STRIPS,
            )
        if waiting < total:
            row, tile = waiting // tiles, waiting % tiles
            if row != known_row:
                known_row, known, base = row, none, kl.cast(INITIAL, KIND)
            carried, known, base = before_tile(
                state,
                waiting - tile,
                tile,
                mark,
                known,
                base,
                totals,
                parts,
                MERGE,
                KIND,
                INITIAL,
                WIDTH,
                SPAN,
            )
            written(
                out,
                row,
                tile,
                lead,
                carried,
                held,
                MERGE,
                KIND,
                INITIAL,
                LANES,
                WIDTH,
                STRIPS,
                SHIFT,
            )
        for strip in kl.static_range(STRIPS):
            held[strip] = fresh[strip]
        waiting, newest, following = newest, following, upcoming
        upcoming = handed_out(ticket, state, draws)
