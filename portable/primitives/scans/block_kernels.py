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

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.scans.lookback_kernels import Board, joined, slot_of
from portable.primitives.scans.scan_kernels import running_totals

__all__ = ["Blocks", "scan_blocks_in_turn", "scan_rows"]

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


@dataclass(frozen=True)
class Blocks:
    """How rows are cut into blocks, and written; a constant of the kernels.

    Attributes
    ----------
    merge : Merge
        What is done, and how many neighbours are a vector.
    size : int
        Elements of a block.
    shift : int
        1 where the first element of the result is the total of nothing.
    streaming : bool
        Whether the result is more than the caches hold.
    patience : int
        How often a total is looked for before what is missing is added up.
    ahead : int
        For so many elements before they are read they are sent.
    """

    merge: Any
    size: int
    shift: int
    streaming: bool
    patience: int = 0
    ahead: int = 0

    @function
    def taken(self, x: Any, outer: Any, r: Any, AHEAD: Any = 0) -> Any:
        """A vector of a row."""
        lanes = self.merge.lanes
        return kl.cast(kl.vload(x, *outer, r, lanes=lanes, ahead=AHEAD), self.merge.kind)

    @function
    def written(self, out: Any, outer: Any, r: Any, before: Any, carried: Any, totals: Any) -> Any:
        """Writes the totals of a vector of a block; gives what the block comes to up to its end.

        `before` is the total before the block, `carried` that of the block before the vector:
        apart, since a block's own totals are smaller, and rounded less, than those of the row.
        """
        done = self.merge(before, self.merge(carried, totals))
        kl.vstore(out, *outer, r + self.shift, done, streaming=self.streaming)
        return self.merge(carried, self.merge.spread(totals[self.merge.lanes - 1]))

    @function
    def rest_written(
        self, x: Any, out: Any, outer: Any, begin: Any, stop: Any, before: Any, carried: Any
    ) -> Any:
        """Writes the running totals from `begin` to a block's `stop`; gives the block's own."""
        lanes = self.merge.lanes
        whole = begin + (stop - begin) // lanes * lanes
        for r in range(begin, whole, lanes):
            totals = running_totals(self.taken(x, outer, r), self.merge)
            carried = self.written(out, outer, r, before, carried, totals)
        one = carried[lanes - 1]
        first = before[lanes - 1]
        for r in range(whole, stop):
            one = self.merge(one, self.merge.one(x, outer, r))
            out[*outer, r + self.shift] = self.merge(first, one)
        return one

    @function
    def rest_added_up(self, x: Any, outer: Any, begin: Any, stop: Any, sums: Any) -> Any:
        """What the lanes of `sums` and the elements from `begin` to `stop` come to."""
        whole = begin + (stop - begin) // self.merge.lanes * self.merge.lanes
        for r in range(begin, whole, self.merge.lanes):
            sums = self.merge(sums, self.taken(x, outer, r))
        total = self.merge.folded(sums)
        for r in range(whole, stop):
            total = self.merge(total, self.merge.one(x, outer, r))
        return total

    @function
    def added_up(self, x: Any, outer: Any, block: Any) -> Any:
        """The total of a block of a row."""
        begin = block * self.size
        stop = kl.minimum(begin + self.size, x.shape[x.ndim - 1])
        nothing = self.merge.spread(self.merge.nothing())
        return self.rest_added_up(x, outer, begin, stop, nothing)

    @function
    def before_block(self, x: Any, board: Any, outer: Any, row: Any, block: Any) -> Any:
        """The row's total before a block, if need be from the last one published.

        `row` is the slot of the row's first block.
        """
        KIND = self.merge.kind
        PIECES = KIND.itemsize // 4
        words = kl.private((PIECES,), kl.u64)
        total = self.merge.nothing()
        known = block
        missing = block > 0
        looks = 0
        while missing:
            missing = not board.looked_at(slot_of(row + known - 1, KIND), words, 0, PIECES)
            if not missing:
                total = joined(words, 0, KIND)
            elif looks < self.patience:
                looks = looks + 1
            else:
                known = known - 1
                missing = known > 0
        for b in range(known, block):
            total = self.merge(total, self.added_up(x, outer, b))
            board.publish(slot_of(row + b, KIND), total, KIND)
        return total


@kernel
def scan_blocks_in_turn(x: Any, state: Any, out: Any, *, BLOCKS: Any) -> None:
    """Running totals of the last axis, in blocks for which work-items draw.

    `state` has a word for the tickets and, for each block, one for each piece of 32 bits of a
    number; it holds zeros before the first launch and stays as it is until the next over as many
    blocks by as many work-items.
    """
    MERGE, BLOCK = BLOCKS.merge, BLOCKS.size
    lead = x.shape[: x.ndim - 1]
    length = x.shape[x.ndim - 1]
    blocks = kl.cdiv(length, BLOCK)
    total = product_of(lead) * blocks
    # Each work-item draws a ticket at first, and one more for each block that it gets.
    draws = total + kl.num_groups(0)
    ticket = ticket_drawn(state, draws)
    board = Board(state, ((ticket >> 32) + 1) & _LOW)
    number = kl.cast(ticket & _LOW, draws.dtype)
    own = MERGE.nothing()
    if number < total:
        own = BLOCKS.added_up(x, unravelled(number // blocks, lead), number % blocks)
    while number < total:
        outer = unravelled(number // blocks, lead)
        block = number % blocks
        before = BLOCKS.before_block(x, board, outer, number - block, block)
        board.publish(slot_of(number, MERGE.kind), MERGE(before, own), MERGE.kind)
        if BLOCKS.shift == 1 and block == 0:
            out[*outer, 0] = MERGE.nothing()
        number = kl.cast(ticket_drawn(state, draws) & _LOW, draws.dtype)
        next_outer = unravelled(kl.minimum(number, total - 1) // blocks, lead)
        begin, next_begin = block * BLOCK, number % blocks * BLOCK
        stop = kl.minimum(begin + BLOCK, length)
        next_stop = kl.minimum(next_begin + BLOCK, length)
        if number >= total:
            next_stop = next_begin
        both = 0
        raised, carried = MERGE.spread(before), MERGE.spread(MERGE.nothing())
        sums = carried
        # Scalars that are added up in two loops come out otherwise than in one: Intel's compiler
        # (2026.22.10) adds up parts of a loop's side by side.
        if MERGE.lanes > 1:
            both = kl.minimum(stop - begin, next_stop - next_begin) // MERGE.lanes * MERGE.lanes
            for r in range(0, both, MERGE.lanes):
                mine = BLOCKS.taken(x, outer, begin + r)
                new = BLOCKS.taken(x, next_outer, next_begin + r, BLOCKS.ahead)
                totals = running_totals(mine, MERGE)
                carried = BLOCKS.written(out, outer, begin + r, raised, carried, totals)
                sums = MERGE(sums, new)
        BLOCKS.rest_written(x, out, outer, begin + both, stop, raised, carried)
        own = BLOCKS.rest_added_up(x, next_outer, next_begin + both, next_stop, sums)


@kernel
def scan_rows(x: Any, out: Any, *, BLOCKS: Any, ROWS: int) -> None:
    """Running totals of the last axis: a work-item sweeps over each of `ROWS` rows.

    In blocks, which are whole vectors, so that sums are rounded less.
    """
    MERGE, BLOCK = BLOCKS.merge, BLOCKS.size
    kl.static_assert(BLOCK % MERGE.lanes == 0, "blocks are whole vectors")
    lead = x.shape[: x.ndim - 1]
    length = x.shape[x.ndim - 1]
    first = kl.global_id(0) * ROWS
    for row in range(first, kl.minimum(first + ROWS, product_of(lead))):
        outer = unravelled(row, lead)
        if BLOCKS.shift == 1:
            out[*outer, 0] = MERGE.nothing()
        before, fresh = MERGE.nothing(), MERGE.spread(MERGE.nothing())
        for begin in range(0, length, BLOCK):
            stop = kl.minimum(begin + BLOCK, length)
            own = BLOCKS.rest_written(x, out, outer, begin, stop, MERGE.spread(before), fresh)
            before = MERGE(before, own)
