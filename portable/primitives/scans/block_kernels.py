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

from dataclasses import dataclass, replace
from typing import Any

from portable import lang as kl
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.scans.board_kernels import drawn, joined, opened
from portable.primitives.scans.scan_kernels import running_totals

__all__ = ["Blocks", "scan_blocks_in_turn", "scan_rows"]


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

    def write(
        self, x: Any, out: Any, outer: Any, begin: Any, stop: Any, before: Any, carried: Any
    ) -> Any:
        """Writes running totals from `begin` to `stop`; gives what the block comes to up to there.

        `before` is the total before the block, `carried` that of the block before `begin`: apart,
        since a block's own totals are smaller, and rounded less, than those of the row.
        """
        for r, lanes in kl.vector_range(begin, stop, lanes=self.merge.lanes):
            merge = replace(self.merge, lanes=lanes)
            carried = self.put(out, outer, r, before, carried, merge.read(x, outer, r), merge)
        return carried

    def put(
        self, out: Any, outer: Any, r: Any, before: Any, carried: Any, values: Any, MERGE: Any
    ) -> Any:
        """Writes the running totals of a few elements; gives the block's own."""
        totals = running_totals(values, MERGE)
        done = MERGE(MERGE.spread(before), MERGE(MERGE.spread(carried), totals))
        kl.vstore(out, *outer, r + self.shift, done, streaming=self.streaming)
        return MERGE(carried, totals[MERGE.lanes - 1])

    def rest_added_up(self, x: Any, outer: Any, begin: Any, stop: Any, sums: Any) -> Any:
        """What the lanes of `sums` and the elements from `begin` to `stop` come to."""
        whole = begin + (stop - begin) // self.merge.lanes * self.merge.lanes
        for r in range(begin, whole, self.merge.lanes):
            sums = self.merge(sums, self.merge.read(x, outer, r))
        total = self.merge.folded(sums)
        for r in range(whole, stop):
            total = self.merge(total, self.merge.one(x, outer, r))
        return total

    def added_up(self, x: Any, outer: Any, block: Any) -> Any:
        """The total of a block of a row."""
        begin = block * self.size
        stop = kl.minimum(begin + self.size, x.shape[x.ndim - 1])
        nothing = self.merge.spread(self.merge.nothing())
        return self.rest_added_up(x, outer, begin, stop, nothing)

    def before_block(self, x: Any, board: Any, outer: Any, row: Any, block: Any) -> Any:
        """The total before a block, if need be from the last published one since number `row`."""
        words = kl.private((self.merge.kind.itemsize // 4,), kl.u64)
        total = self.merge.nothing()
        known = block
        missing = block > 0
        looks = 0
        while missing:
            missing = not board.looked_at(board.slot(row + known - 1), words)
            if not missing:
                total = joined(words, 0, self.merge.kind)
            elif looks < self.patience:
                looks = looks + 1
            else:
                known = known - 1
                missing = known > 0
        for b in range(known, block):
            total = self.merge(total, self.added_up(x, outer, b))
            board.publish(board.slot(row + b), total)
        return total


@kernel
def scan_blocks_in_turn(x: Any, state: Any, out: Any, *, BLOCKS: Any) -> None:
    """Running totals of the last axis, in blocks for which work-items draw.

    Parameters
    ----------
    x, out : array
        What is read and written.
    state : array of uint64
        A word for the tickets, and for each block one for each 32 bits of a total: zeros before
        the first launch, then what the last one over as many blocks and work-items left.
    BLOCKS : Blocks
        How rows are cut.
    """
    MERGE, BLOCK = BLOCKS.merge, BLOCKS.size
    *lead, length = x.shape
    blocks = kl.cdiv(length, BLOCK)
    total = product_of(lead) * blocks
    # Each work-item draws a ticket at first, and one more for each block that it gets.
    draws = total + kl.num_groups(0)
    board, number = opened(state, draws, MERGE.kind)
    own = MERGE.nothing()
    if number < total:
        own = BLOCKS.added_up(x, unravelled(number // blocks, lead), number % blocks)
    while number < total:
        outer = unravelled(number // blocks, lead)
        block = number % blocks
        before = BLOCKS.before_block(x, board, outer, number - block, block)
        board.publish(board.slot(number), MERGE(before, own))
        if BLOCKS.shift == 1 and block == 0:
            out[*outer, 0] = MERGE.nothing()
        number = board.number_on(drawn(state))
        next_outer = unravelled(kl.minimum(number, total - 1) // blocks, lead)
        begin, next_begin = block * BLOCK, number % blocks * BLOCK
        stop = kl.minimum(begin + BLOCK, length)
        next_stop = kl.minimum(next_begin + BLOCK, length)
        if number >= total:
            next_stop = next_begin
        both, carried, sums = 0, MERGE.nothing(), MERGE.spread(MERGE.nothing())
        # Scalars that are added up in two loops come out otherwise than in one: Intel's compiler
        # (2026.22.10) adds up parts of a loop's side by side.
        if MERGE.lanes > 1:
            both = kl.minimum(stop - begin, next_stop - next_begin) // MERGE.lanes * MERGE.lanes
            for r in range(0, both, MERGE.lanes):
                mine = MERGE.read(x, outer, begin + r)
                new = MERGE.read(x, next_outer, next_begin + r, ahead=BLOCKS.ahead)
                carried = BLOCKS.put(out, outer, begin + r, before, carried, mine, MERGE)
                sums = MERGE(sums, new)
        BLOCKS.write(x, out, outer, begin + both, stop, before, carried)
        own = BLOCKS.rest_added_up(x, next_outer, next_begin + both, next_stop, sums)


@kernel
def scan_rows(x: Any, out: Any, *, BLOCKS: Any, ROWS: int) -> None:
    """Running totals of the last axis: a work-item sweeps over each of `ROWS` rows.

    Parameters
    ----------
    x, out : array
        What is read and written.
    BLOCKS : Blocks
        How rows are cut, into whole vectors, so that sums are rounded less.
    """
    MERGE, BLOCK = BLOCKS.merge, BLOCKS.size
    kl.static_assert(BLOCK % MERGE.lanes == 0, "blocks are whole vectors")
    *lead, length = x.shape
    first = kl.global_id(0) * ROWS
    for row in range(first, kl.minimum(first + ROWS, product_of(lead))):
        outer = unravelled(row, lead)
        if BLOCKS.shift == 1:
            out[*outer, 0] = MERGE.nothing()
        before = MERGE.nothing()
        for begin in range(0, length, BLOCK):
            stop = kl.minimum(begin + BLOCK, length)
            own = BLOCKS.write(x, out, outer, begin, stop, before, MERGE.nothing())
            before = MERGE(before, own)
