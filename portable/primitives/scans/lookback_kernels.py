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
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.scans.board_kernels import drawn, joined, opened
from portable.primitives.scans.scan_kernels import Tile, padded, running_totals

_PARTS = 8
"""Into how many parts a block of totals is cut, a work-item each."""
_BANKS = 16
"""Numbers after which a place is left out, against bank conflicts."""


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

    def gathered(
        self, board: Any, row: kl.Scalar, first: kl.Scalar, tile: kl.Scalar, window: kl.Array
    ) -> None:
        """Waits for the totals from tile `first` to `tile` of the row that begins at `row`."""
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
                    seen = board.looked_at(board.slot(row + at), words, b * PIECES)
                    complete = complete & seen
        kl.barrier()
        for b in kl.static_range(self.span):
            value = self.tile.merge.nothing()
            if first + b * WIDTH + item < tile:
                value = joined(words, b * PIECES, KIND)
            window[b * padded(WIDTH, _BANKS) + padded(item, _BANKS)] = value
        kl.barrier()

    def added_in_parts(self, window: kl.Array, parts: kl.Array) -> None:
        """Adds up each of `_PARTS` parts of each block."""
        item = kl.local_id(0)
        LENGTH = self.tile.width // _PARTS
        if item < self.span * _PARTS:
            begin = item % _PARTS * LENGTH
            slot = item // _PARTS * padded(self.tile.width, _BANKS)
            part = window[slot + padded(begin, _BANKS)]
            for k in kl.static_range(1, LENGTH):
                part = self.tile.merge(part, window[slot + padded(begin + k, _BANKS)])
            parts[item] = part
        kl.barrier()

    def before_tile(
        self,
        board: Any,
        row: kl.Scalar,
        tile: kl.Scalar,
        known: kl.Scalar,
        base: kl.Scalar,
        window: kl.Array,
        parts: kl.Array,
    ) -> Any:
        """The row's total before a tile; how many blocks are `known` by now, and their total."""
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

    def send_for(self, x: kl.Array, buffer: kl.Array, number: kl.Scalar, tiles: kl.Scalar) -> None:
        """Starts to copy a tile into local memory, where there is one of this number."""
        lead = x.shape[: x.ndim - 1]
        if number < product_of(lead) * tiles:
            outer, begin = unravelled(number // tiles, lead), number % tiles * self.tile.size
            kl.copy_async(buffer, x[*outer, begin : begin + self.tile.size])
        kl.copy_commit()

    def take_over(
        self, x: kl.Array, buffer: kl.Array, number: kl.Scalar, tiles: kl.Scalar, fresh: kl.Array
    ) -> None:
        """Takes this work-item's vectors of a copied tile, as running totals of each."""
        tile, length, begin = self.tile, x.shape[x.ndim - 1], number % tiles * self.tile.size
        item = kl.local_id(0)
        kl.copy_wait(0)
        kl.barrier()
        if begin + tile.size <= length:
            for strip in kl.static_range(tile.strips):
                fresh[strip] = tile.merge.read(buffer, (), tile.place_of(strip, item))
        else:
            outer = unravelled(number // tiles, x.shape[: x.ndim - 1])
            for strip in kl.static_range(tile.strips):
                fresh[strip] = tile.loaded(x, outer, begin + tile.place_of(strip, item), length)
        for strip in kl.static_range(tile.strips):
            fresh[strip] = running_totals(fresh[strip], tile.merge)
        kl.barrier()

    def announce(
        self, board: Any, number: kl.Scalar, fresh: kl.Array, totals: kl.Array, halves: kl.Array
    ) -> None:
        """Publishes a tile's total and turns the running totals of vectors into those of it."""
        sums = self.tile.added_up(fresh, totals, halves[0], halves[1])
        if kl.local_id(0) == 0:
            board.publish(board.slot(number), sums[self.tile.width - 1])
        for strip in kl.static_range(self.tile.strips):
            before = self.tile.before_vector(strip, totals, sums)
            fresh[strip] = self.tile.raised(before, fresh[strip])

    def write(
        self,
        out: kl.Array,
        outer: tuple[kl.Scalar, ...],
        tile: kl.Scalar,
        carried: kl.Scalar,
        held: kl.Array,
        SHIFT: int,
    ) -> None:
        """Writes a tile, `carried` before it."""
        if SHIFT == 1 and tile == 0 and kl.local_id(0) == 0:
            out[*outer, 0] = self.tile.merge.nothing()
        for strip in kl.static_range(self.tile.strips):
            r = tile * self.tile.size + self.tile.place_of(strip, kl.local_id(0)) + SHIFT
            done = self.tile.raised(carried, held[strip])
            self.tile.stored(out, outer, r, out.shape[out.ndim - 1], done)


@kernel
def scan_in_turn(
    x: kl.Array, state: kl.Array, out: kl.Array, *, LOOK: LookBack, SHIFT: int
) -> None:
    """Running totals of the last axis, in tiles for which workgroups draw tickets.

    Parameters
    ----------
    x, out : array
        What is read and written.
    state : array of uint64
        A word for the tickets, and for each tile one for each 32 bits of a total: zeros before the
        first launch, then what the last one over as many tiles and workgroups left.
    LOOK : LookBack
        How tiles are held, and how many are looked at.
    SHIFT : int
        1 where the first element of `out` is the total of nothing.
    """
    TILE, MERGE = LOOK.tile, LOOK.tile.merge
    kl.static_assert(TILE.width % _PARTS == 0, "blocks of tiles are cut into equal parts")
    kl.static_assert(TILE.width >= LOOK.span * _PARTS, "each part has a work-item")
    *lead, length = x.shape
    VECTORS, WINDOW = padded(TILE.strips * TILE.width, TILE.strips), padded(TILE.width, _BANKS)
    tiles = kl.cdiv(length, TILE.size)
    total = product_of(lead) * tiles
    buffer = kl.local((TILE.size,), x.dtype)
    totals = kl.local((max(VECTORS, LOOK.span * WINDOW),), MERGE.kind)
    halves = kl.local((2, TILE.width), MERGE.kind)
    parts = kl.local((LOOK.span * _PARTS,), MERGE.kind)
    fresh = kl.private((TILE.strips,), MERGE.kind, lanes=MERGE.lanes)
    held = kl.private((TILE.strips,), MERGE.kind, lanes=MERGE.lanes)
    # Each workgroup draws three tickets at first, and one more for each tile that it gets.
    draws = total + 3 * kl.num_groups(0)
    board, newest = opened(state, draws, MERGE.kind)
    ticket = drawn(state)
    LOOK.send_for(x, buffer, newest, tiles)
    following = board.number_on(ticket)
    upcoming = board.number_on(drawn(state))
    waiting = total
    none = kl.cast(0, total.dtype)
    known_row, known, base = none, none, MERGE.nothing()
    while newest < total or waiting < total:
        ticket = kl.cast(0, kl.u64)
        if newest < total:
            ticket = drawn(state)
            LOOK.take_over(x, buffer, newest, tiles, fresh)
            LOOK.send_for(x, buffer, following, tiles)
            LOOK.announce(board, newest, fresh, totals, halves)
        if waiting < total:
            row, tile = waiting // tiles, waiting % tiles
            if row != known_row:
                known_row, known, base = row, none, MERGE.nothing()
            carried, known, base = LOOK.before_tile(
                board, waiting - tile, tile, known, base, totals, parts
            )
            LOOK.write(out, unravelled(row, lead), tile, carried, held, SHIFT)
        for strip in kl.static_range(TILE.strips):
            held[strip] = fresh[strip]
        waiting, newest, following = newest, following, upcoming
        upcoming = board.number_on(ticket)
