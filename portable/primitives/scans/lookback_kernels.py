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
from portable.primitives.reductions.merging import Line
from portable.primitives.scans.board_kernels import chain_added, drawn, joined, opened
from portable.primitives.scans.scan_kernels import Tile, padded, running_totals

# Running totals of columns in one pass: workgroups read the totals of the tiles above their own.
#
# After D. Merrill, M. Garland, "Single-pass parallel prefix scan with decoupled look-back", NVIDIA
# technical report NVR-2016-002. A strip of neighbouring columns is cut into tiles, which are handed
# out in order, all strips' first tiles before their second ones. A workgroup says what the columns
# of its tile come to, reads the same of as many tiles above as it has rows of work-items, less one,
# but of the farthest the totals from the top, adds these up, and says its own totals from the top.
# Of whose tile it reads what does not depend on timing, so results do not.
#
# Totals from the top are two numbers, see `board_kernels`: so the chain of additions from tile to
# tile is not long, and they do not drift.

_OF_TILE, _FROM_TOP = 0, 1
PUBLISHED = 3
"""Numbers that are published of a column: what it comes to in a tile, and from the top on, which
are two, by levels."""


@dataclass(frozen=True)
class Strip:
    """How workgroups hold tiles of columns; a constant of the kernel.

    Attributes
    ----------
    merge : Merge
        What is done, and how many neighbours are a vector.
    width, tall : int
        Work-items along neighbours, and down the columns.
    depth : int
        Vectors that each work-item holds, one below the other.
    """

    merge: Any
    width: int
    tall: int
    depth: int

    @property
    def columns(self) -> int:
        """How many lie in a strip."""
        return int(self.width * self.merge.lanes)

    @property
    def back(self) -> int:
        """How far above are the farthest tiles that are looked at; of these the totals are two."""
        return self.tall - 1

    def slot(self, number: kl.Scalar, total: kl.Scalar, what: kl.Scalar) -> Any:
        """Where the first word about this work-item's columns of a tile lies."""
        words = self.columns * (self.merge.kind.itemsize // 4)
        return 1 + (what * total + number) * words + kl.local_id(0) % self.width

    def publish(self, board: Any, first: kl.Scalar, values: kl.Scalar) -> None:
        """Lets others see totals, in a slot."""
        pieces = self.merge.kind.itemsize // 4 * self.width
        for lane in kl.static_range(self.merge.lanes):
            board.publish(first + lane * pieces, values[lane])

    def awaited(self, board: Any, first: kl.Scalar) -> Any:
        """The totals in a slot, once they have been published."""
        kind, lanes = self.merge.kind, self.merge.lanes
        PIECES = kind.itemsize // 4
        words = kl.private((lanes * PIECES,), kl.u64)
        complete = False
        while not complete:
            complete = board.looked_at(first, words, COUNT=lanes)
        values = [joined(words, lane * PIECES, kind) for lane in kl.static_range(lanes)]
        return kl.vector(*values)

    def before_row(self, sums: kl.Array, down: kl.Scalar, across: kl.Scalar) -> Any:
        """What the rows of work-items above the `down`-th one have together."""
        before = self.merge.spread(self.merge.nothing())
        for k in kl.static_range(self.tall - 1):
            if k < down:
                before = self.merge(before, kl.vload(sums, k, across, lanes=self.merge.lanes))
        return before

    def total_above(
        self, board: Any, at: tuple[kl.Scalar, ...], strips: kl.Scalar, total: kl.Scalar
    ) -> Any:
        """What this work-item reads of a tile above one, once it is published.

        `at` is the tile's number, and how many lie above it.

        Each row of work-items reads what another one comes to; the last two, of the farthest, both
        levels of its totals from the top.
        """
        (number, above), down = at, kl.local_id(0) // self.width
        value = self.merge.spread(self.merge.nothing())
        higher = kl.minimum(down + 1, self.back)
        if above >= higher:
            what = kl.maximum(down + 2 - self.back, _OF_TILE)
            value = self.awaited(board, self.slot(number - higher * strips, total, what))
        return value

    def before_tile(self, others: kl.Array, across: kl.Scalar) -> Any:
        """What the tiles above come to, and the two levels of totals from the top before them."""
        lanes = self.merge.lanes
        between = self.merge.spread(self.merge.nothing())
        for k in kl.static_range(self.back - 2, -1, -1):
            between = self.merge(between, kl.vload(others, k, across, lanes=lanes))
        levels = [kl.vload(others, self.back - 1 + k, across, lanes=lanes) for k in range(2)]
        return between, tuple(levels)

    def take(self, line: Line, first: kl.Scalar, count: kl.Scalar, held: kl.Array) -> None:
        """Reads this work-item's vectors, `count` of which there are, as running totals of them."""
        axis = line.x.ndim - 2
        if count >= self.depth:
            for k in kl.static_range(self.depth):
                held[k] = self.merge.read(line, first + k, axis)
        else:
            for k in kl.static_range(self.depth):
                held[k] = self.merge.spread(self.merge.nothing())
                if k < count:
                    held[k] = self.merge.read(line, first + k, axis)
        for k in kl.static_range(1, self.depth):
            held[k] = self.merge(held[k - 1], held[k])


@kernel
def chained_strip_scan(
    x: kl.Array, state: kl.Array, out: kl.Array, *, STRIP: Strip, SHIFT: int
) -> None:
    """Running totals of the last axis, neighbours lying along another, in tiles.

    Parameters
    ----------
    x, out : array
        What is read and written.
    state : array of uint64
        A word for the tickets, and for each tile and column `PUBLISHED` for each 32 bits of a
        total: zeros before the first launch, then what the last one over as many tiles and
        workgroups left.
    STRIP : Strip
        How tiles are held, and by how many rows of work-items, each of which looks at one total.
    SHIFT : int
        1 where the first element of `out` is the total of nothing.
    """
    MERGE, TALL, DEPTH = STRIP.merge, STRIP.tall, STRIP.depth
    *lead, length = x.shape
    columns = product_of(lead)
    strips = kl.cdiv(columns, STRIP.columns)
    total = strips * kl.cdiv(length, TALL * DEPTH)
    item = kl.local_id(0) % STRIP.width
    across = item * MERGE.lanes
    down = kl.local_id(0) // STRIP.width
    sums = kl.local((TALL, STRIP.columns), MERGE.kind)
    others = kl.local((TALL, STRIP.columns), MERGE.kind)
    held = kl.private((DEPTH,), MERGE.kind, lanes=MERGE.lanes)
    neutral = MERGE.spread(MERGE.nothing())
    # Each workgroup draws one ticket at first, and one more for each tile that it gets.
    draws = total + kl.num_groups(0)
    board, number = opened(state, draws, MERGE.kind, STRIP.width)
    while number < total:
        ticket = drawn(state)
        strip, above = number % strips, number // strips
        column = strip * STRIP.columns + across
        inside = column < columns
        outer = unravelled(column, lead)
        first = above * (TALL * DEPTH) + down * DEPTH
        count = kl.minimum(length - first, DEPTH) if inside else 0
        STRIP.take(Line(x, outer), first, count, held)
        kl.vstore(sums, down, across, held[DEPTH - 1])
        kl.barrier()
        before = STRIP.before_row(sums, down, across)
        whole = MERGE(before, held[DEPTH - 1])
        if down == TALL - 1:
            STRIP.publish(board, STRIP.slot(number, total, _OF_TILE), whole)
        value = STRIP.total_above(board, (number, above), strips, total)
        kl.vstore(others, down, across, value)
        kl.barrier()
        between, levels = STRIP.before_tile(others, across)
        carried = MERGE(levels[1], MERGE(levels[0], between))
        if down == TALL - 1:
            step = above // STRIP.back
            levels = chain_added(levels, step, MERGE(between, whole), neutral, MERGE)
            for k in kl.static_range(2):
                STRIP.publish(board, STRIP.slot(number, total, _FROM_TOP + k), levels[k])
        if SHIFT == 1 and above == 0 and down == 0 and inside:
            kl.vstore(out, *outer, 0, neutral, axis=out.ndim - 2)
        before = MERGE(carried, before)
        for k in kl.static_range(DEPTH):
            if k < count:
                done = MERGE(before, held[k])
                kl.vstore(out, *outer, first + k + SHIFT, done, axis=out.ndim - 2)
        number = board.number_on(ticket)


# -- lookback kernels ------------------------------------------------------------------------------

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
                fresh[strip] = tile.merge.read(Line(buffer, ()), tile.place_of(strip, item))
        else:
            outer = unravelled(number // tiles, x.shape[: x.ndim - 1])
            for strip in kl.static_range(tile.strips):
                line = Line(x, outer)
                fresh[strip] = tile.loaded(line, begin + tile.place_of(strip, item), length)
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
        self, line: Line, tile: kl.Scalar, carried: kl.Scalar, held: kl.Array, SHIFT: int
    ) -> None:
        """Writes a tile, `carried` before it."""
        if SHIFT == 1 and tile == 0 and kl.local_id(0) == 0:
            line.x[*line.outer, 0] = self.tile.merge.nothing()
        for strip in kl.static_range(self.tile.strips):
            r = tile * self.tile.size + self.tile.place_of(strip, kl.local_id(0)) + SHIFT
            done = self.tile.raised(carried, held[strip])
            self.tile.stored(line, r, line.x.shape[line.x.ndim - 1], done)


@kernel
def chained_scan(
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
            LOOK.write(Line(out, unravelled(row, lead)), tile, carried, held, SHIFT)
        for strip in kl.static_range(TILE.strips):
            held[strip] = fresh[strip]
        waiting, newest, following = newest, following, upcoming
        upcoming = board.number_on(ticket)
