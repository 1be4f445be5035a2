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

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.scans.scan_kernels import Tile, padded, running_totals

__all__ = ["Board", "LookBack", "drawn", "handed_out", "joined", "scan_in_turn", "slot_of"]

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


@dataclass(frozen=True)
class Board:
    """Where totals are published: words, each a piece of 32 bits with a mark above it.

    Attributes
    ----------
    state : array
        The words.
    mark : int
        That of this launch.
    apart : int
        How far the pieces of a number are apart; a constant.
    """

    state: Any
    mark: Any
    apart: int = 1

    @function
    def publish(self, first: Any, value: Any, KIND: Any) -> None:
        """Lets others see a total, whose pieces go to words from `first` on."""
        pieces = pieces_of(value, KIND)
        for p in kl.static_range(len(pieces)):
            kl.atomic_store(self.state, first + p * self.apart, pieces[p] | (self.mark << 32))

    @function
    def looked_at(self, first: Any, words: Any, place: Any, PIECES: Any) -> Any:
        """Whether so many pieces have been published; they go into `words` from `place` on."""
        complete = True
        for p in kl.static_range(PIECES):
            words[place + p] = kl.atomic_load(self.state, first + p * self.apart)
        for p in kl.static_range(PIECES):
            complete = complete & ((words[place + p] >> 32) == self.mark)
        return complete


@function
def slot_of(number: Any, KIND: Any) -> Any:
    """The first word of a number's pieces, behind that for the tickets."""
    return 1 + number * (KIND.itemsize // 4)


@dataclass(frozen=True)
class LookBack:
    """How workgroups hold tiles, and how many of those before they look at; a constant.

    Attributes
    ----------
    tile : Tile
        What each holds.
    span : int
        Blocks of tiles that are looked at together; a block is as many as a tile has work-items.
    """

    tile: Tile
    span: int

    @function
    def gathered(self, board: Any, row: Any, first: Any, tile: Any, window: Any) -> None:
        """Waits for the totals of the tiles from `first` to `tile`, as many as are looked at.

        `row` is the number of the row's first tile.
        """
        KIND, WIDTH = self.tile.merge.kind, self.tile.width
        PIECES = KIND.itemsize // 4
        item = kl.local_id(0)
        words = kl.private((self.span * PIECES,), kl.u64)
        complete = False
        while not complete:
            complete = True
            for b in kl.static_range(self.span):
                at = first + b * WIDTH + item
                if at < tile:
                    seen = board.looked_at(slot_of(row + at, KIND), words, b * PIECES, PIECES)
                    complete = complete & seen
        kl.barrier()
        for b in kl.static_range(self.span):
            value = self.tile.merge.nothing()
            if first + b * WIDTH + item < tile:
                value = joined(words, b * PIECES, KIND)
            window[b * padded(WIDTH, _BANKS) + padded(item, _BANKS)] = value
        kl.barrier()

    @function
    def added_in_parts(self, window: Any, parts: Any) -> None:
        """Adds up each of `_PARTS` parts of each block."""
        item = kl.local_id(0)
        LENGTH = self.tile.width // _PARTS
        if item < self.span * _PARTS:
            begin = item % _PARTS * LENGTH
            place = item // _PARTS * padded(self.tile.width, _BANKS)
            part = window[place + padded(begin, _BANKS)]
            for k in kl.static_range(1, LENGTH):
                part = self.tile.merge(part, window[place + padded(begin + k, _BANKS)])
            parts[item] = part
        kl.barrier()

    @function
    def before_tile(
        self, board: Any, row: Any, tile: Any, known: Any, base: Any, window: Any, parts: Any
    ) -> Any:
        """The row's total before a tile; also how many blocks are `known`, and their total.

        Those before are `base`.
        """
        carried = base
        first = known * self.tile.width
        while first < tile:
            self.gathered(board, row, first, tile, window)
            self.added_in_parts(window, parts)
            for b in kl.static_range(self.span):
                if first < tile:
                    block = parts[b * _PARTS]
                    for k in kl.static_range(1, _PARTS):
                        block = self.tile.merge(block, parts[b * _PARTS + k])
                    carried = self.tile.merge(carried, block)
                    first = first + self.tile.width
                    if first <= tile:
                        base = carried
                        known = known + 1
        return carried, known, base


@function
def sent_for(x: Any, buffer: Any, number: Any, tiles: Any, TILE: Any) -> None:
    """Starts to copy a tile into local memory, where there is one of this number."""
    lead = x.shape[: x.ndim - 1]
    if number < product_of(lead) * tiles:
        outer = unravelled(number // tiles, lead)
        begin = number % tiles * TILE.size
        kl.copy_async(buffer, x[*outer, begin : begin + TILE.size])
    kl.copy_commit()


@function
def taken_over(x: Any, number: Any, tiles: Any, buffer: Any, fresh: Any, TILE: Any) -> None:
    """Takes this work-item's vectors of a tile that has been copied, as running totals of each."""
    length = x.shape[x.ndim - 1]
    begin = number % tiles * TILE.size
    item = kl.local_id(0)
    kl.copy_wait(0)
    kl.barrier()
    if begin + TILE.size <= length:
        for strip in kl.static_range(TILE.strips):
            fresh[strip] = TILE.merge.read(buffer, (), TILE.place_of(strip, item))
    else:
        outer = unravelled(number // tiles, x.shape[: x.ndim - 1])
        for strip in kl.static_range(TILE.strips):
            fresh[strip] = TILE.loaded(x, outer, begin + TILE.place_of(strip, item), length)
    for strip in kl.static_range(TILE.strips):
        fresh[strip] = running_totals(fresh[strip], TILE.merge)
    kl.barrier()


@function
def announced(board: Any, number: Any, fresh: Any, totals: Any, halves: Any, TILE: Any) -> None:
    """Publishes the total of a tile and turns the running totals of vectors into those of it."""
    sums = TILE.added_up(fresh, totals, halves[0], halves[1])
    if kl.local_id(0) == 0:
        KIND = TILE.merge.kind
        board.publish(slot_of(number, KIND), sums[TILE.width - 1], KIND)
    for strip in kl.static_range(TILE.strips):
        fresh[strip] = TILE.raised(TILE.before_vector(strip, totals, sums), fresh[strip])


@function
def written(
    out: Any, outer: Any, tile: Any, carried: Any, held: Any, TILE: Any, SHIFT: Any
) -> None:
    """Writes a tile, `carried` before it."""
    if SHIFT == 1 and tile == 0 and kl.local_id(0) == 0:
        out[*outer, 0] = TILE.merge.nothing()
    for strip in kl.static_range(TILE.strips):
        r = tile * TILE.size + TILE.place_of(strip, kl.local_id(0)) + SHIFT
        TILE.stored(out, outer, r, out.shape[out.ndim - 1], TILE.raised(carried, held[strip]))


@kernel
def scan_in_turn(x: Any, state: Any, out: Any, *, LOOK: Any, SHIFT: int) -> None:
    """Running totals of the last axis, in tiles for which workgroups draw tickets.

    `state` has a word for the tickets and, for each tile, one for each piece of 32 bits of a
    number; it holds zeros before the first launch and stays as it is until the next over as many
    tiles by as many workgroups. `SHIFT` is 1 where the first element of `out` is the total of
    nothing.
    """
    TILE, MERGE = LOOK.tile, LOOK.tile.merge
    kl.static_assert(TILE.width % _PARTS == 0, "blocks of tiles are cut into equal parts")
    kl.static_assert(TILE.width >= LOOK.span * _PARTS, "each part has a work-item")
    lead = x.shape[: x.ndim - 1]
    VECTORS, WINDOW = padded(TILE.strips * TILE.width, TILE.strips), padded(TILE.width, _BANKS)
    tiles = kl.cdiv(x.shape[x.ndim - 1], TILE.size)
    total = product_of(lead) * tiles
    buffer = kl.local((TILE.size,), x.dtype)
    totals = kl.local((max(VECTORS, LOOK.span * WINDOW),), MERGE.kind)
    halves = kl.local((2, TILE.width), MERGE.kind)
    parts = kl.local((LOOK.span * _PARTS,), MERGE.kind)
    fresh = kl.private((TILE.strips,), MERGE.kind, lanes=MERGE.lanes)
    held = kl.private((TILE.strips,), MERGE.kind, lanes=MERGE.lanes)
    # Each workgroup draws three tickets at first, and one more for each tile that it gets.
    draws = total + 3 * kl.num_groups(0)
    ticket = drawn(state)
    board = Board(state, ((kl.workgroup_uniform(ticket) >> 32) + 1) & _LOW)
    newest = handed_out(ticket, state, draws)
    ticket = drawn(state)
    sent_for(x, buffer, newest, tiles, TILE)
    following = handed_out(ticket, state, draws)
    upcoming = handed_out(drawn(state), state, draws)
    waiting = total
    none = kl.cast(0, total.dtype)
    known_row, known, base = none, none, MERGE.nothing()
    while newest < total or waiting < total:
        ticket = kl.cast(0, kl.u64)
        if newest < total:
            ticket = drawn(state)
            taken_over(x, newest, tiles, buffer, fresh, TILE)
            sent_for(x, buffer, following, tiles, TILE)
            announced(board, newest, fresh, totals, halves, TILE)
        if waiting < total:
            row, tile = waiting // tiles, waiting % tiles
            if row != known_row:
                known_row, known, base = row, none, MERGE.nothing()
            carried, known, base = LOOK.before_tile(
                board, waiting - tile, tile, known, base, totals, parts
            )
            written(out, unravelled(row, lead), tile, carried, held, TILE, SHIFT)
        for strip in kl.static_range(TILE.strips):
            held[strip] = fresh[strip]
        waiting, newest, following = newest, following, upcoming
        upcoming = handed_out(ticket, state, draws)
