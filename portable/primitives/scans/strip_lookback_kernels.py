"""Running totals of columns in one pass: workgroups read the totals of the tiles above their own.

After D. Merrill, M. Garland, "Single-pass parallel prefix scan with decoupled look-back", NVIDIA
technical report NVR-2016-002. A strip of neighbouring columns is cut into tiles, which are handed
out in order, all strips' first tiles before their second ones. A workgroup says what the columns of
its tile come to, reads the same of as many tiles above as it has rows of work-items, less one, but
of the farthest the totals from the top, adds these up, and says its own totals from the top. Of
whose tile it reads what does not depend on timing, so results do not.

Totals from the top are two numbers, see `chains`: so the chain of additions from tile to tile is
not long, and they do not drift.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.scans.board_kernels import drawn, joined, opened
from portable.primitives.scans.chains import chain_added

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

    def take(
        self,
        x: kl.Array,
        outer: tuple[kl.Scalar, ...],
        first: kl.Scalar,
        count: kl.Scalar,
        held: kl.Array,
    ) -> None:
        """Reads this work-item's vectors, `count` of which there are, as running totals of them."""
        axis = x.ndim - 2
        if count >= self.depth:
            for k in kl.static_range(self.depth):
                held[k] = self.merge.read(x, outer, first + k, axis)
        else:
            for k in kl.static_range(self.depth):
                held[k] = self.merge.spread(self.merge.nothing())
                if k < count:
                    held[k] = self.merge.read(x, outer, first + k, axis)
        for k in kl.static_range(1, self.depth):
            held[k] = self.merge(held[k - 1], held[k])


@kernel
def scan_strips_in_turn(
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
        STRIP.take(x, outer, first, count, held)
        kl.vstore(sums, down, across, held[DEPTH - 1])
        kl.barrier()
        before = neutral
        for k in kl.static_range(TALL - 1):
            if k < down:
                before = MERGE(before, kl.vload(sums, k, across, lanes=MERGE.lanes))
        whole = MERGE(before, held[DEPTH - 1])
        if down == TALL - 1:
            STRIP.publish(board, STRIP.slot(number, total, _OF_TILE), whole)
        value = neutral
        higher = kl.minimum(down + 1, STRIP.back)
        if above >= higher:
            what = kl.maximum(down + 2 - STRIP.back, _OF_TILE)
            value = STRIP.awaited(board, STRIP.slot(number - higher * strips, total, what))
        kl.vstore(others, down, across, value)
        kl.barrier()
        between = neutral
        for k in kl.static_range(STRIP.back - 2, -1, -1):
            between = MERGE(between, kl.vload(others, k, across, lanes=MERGE.lanes))
        levels = tuple(
            [kl.vload(others, STRIP.back - 1 + k, across, lanes=MERGE.lanes) for k in range(2)]
        )
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
