"""Running totals on processors: each work-item holds a block of a row in its core's caches.

Work-items draw blocks in order. While one writes the running totals of its block, which its core's
caches hold since it added it up, it adds up the one that it has drawn next: memory is read once and
written once, both at the same time. Before that it needs the row's total before the block, which
whoever has the block before publishes as soon as it knows its own. It looks for that a while, and
then adds up itself what is missing, as in T. Smith, R. L. Levien, J. D. Owens, "Decoupled fallback:
a portable single-pass GPU scan", SPAA 2025: a core that is busy elsewhere keeps none waiting.

Totals are published in pieces of 32 bits, each in one word with a mark, so that atomics need no
order. Blocks are added up in the same way by everyone: results do not depend on timing.

No chain of additions is long, so that totals do not drift: within blocks, and from block to block,
they are kept by levels, see `board_kernels`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from portable import lang as kl
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.reductions.merging import CHAIN, Line
from portable.primitives.scans.board_kernels import (
    chain_added,
    drawn,
    joined,
    levels_of,
    opened,
    total_of_levels,
)
from portable.primitives.scans.scan_kernels import running_totals

BLOCK_LEVELS = 2
"""Numbers by which the total before a block is published: see `board_kernels`."""
_LEVELS = 3
"""Those in which totals of a row, or of a block, are kept: one for chains of vectors, then two."""


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

    @property
    def chain(self) -> int:
        """Elements of a chain: a multiple of the lanes, and so many that its end costs little."""
        return int(max(2 * CHAIN * self.merge.lanes, 4 * CHAIN))

    def write(
        self, line: Line, out: Line, begin: kl.Scalar, stop: kl.Scalar, before: kl.Scalar
    ) -> Any:
        """Writes running totals from `begin` to `stop`, `before` being that up to there.

        Gives what these elements come to: apart, since their totals are smaller, and rounded less,
        than those of the row.
        """
        carried = self.merge.nothing()
        for r, lanes in kl.vector_range(begin, stop, lanes=self.merge.lanes):
            merge = replace(self.merge, lanes=lanes)
            carried = self.put(out, r, before, carried, merge.read(line, r), merge)
        return carried

    def write_chains(
        self,
        line: Line,
        out: Line,
        begin: kl.Scalar,
        stop: kl.Scalar,
        before: kl.Scalar,
        levels: tuple[kl.Scalar, ...],
        number: kl.Scalar,
    ) -> None:
        """Writes running totals from `begin` to `stop`, a chain at a time.

        `before` is the total before the row or block, `levels` what its first `number` chains come
        to: all before `begin`.
        """
        for first in range(begin, stop, self.chain):
            last = first + kl.minimum(stop - first, self.chain)
            total = self.merge(before, total_of_levels(levels, self.merge))
            total_here = self.write(line, out, first, last, total)
            levels = chain_added(levels, number, total_here, self.merge.nothing(), self.merge)
            number = number + 1

    def put(
        self,
        out: Line,
        r: kl.Scalar,
        before: kl.Scalar,
        carried: kl.Scalar,
        values: Any,
        MERGE: Any,
    ) -> Any:
        """Writes the running totals of a few elements; gives the chain's own."""
        totals = running_totals(values, MERGE)
        done = MERGE(MERGE.spread(before), MERGE(MERGE.spread(carried), totals))
        kl.vstore(out.x, *out.outer, r + self.shift, done, streaming=self.streaming)
        return MERGE(carried, totals[MERGE.lanes - 1])

    def rest_added_up(
        self, line: Line, begin: kl.Scalar, stop: kl.Scalar, levels: Any, number: kl.Scalar
    ) -> Any:
        """What `levels` and the elements from `begin` to `stop` come to.

        The levels are vectors, and of so many chains: all those of a block before `begin`.
        """
        whole = begin + (stop - begin) // self.merge.lanes * self.merge.lanes
        nothing = self.merge.spread(self.merge.nothing())
        for first in range(begin, whole, self.chain):
            sums = nothing
            for r in range(first, first + kl.minimum(whole - first, self.chain), self.merge.lanes):
                sums = self.merge(sums, self.merge.read(line, r))
            levels = chain_added(levels, number, sums, nothing, self.merge)
            number = number + 1
        total = self.merge.folded(total_of_levels(levels, self.merge))
        for r in range(whole, stop):
            total = self.merge(total, self.merge.one(line, r))
        return total

    def added_up(self, line: Line, block: kl.Scalar) -> Any:
        """The total of a block of a row."""
        begin = block * self.size
        stop = kl.minimum(begin + self.size, line.x.shape[line.x.ndim - 1])
        levels = levels_of(self.merge.spread(self.merge.nothing()), _LEVELS)
        return self.rest_added_up(line, begin, stop, levels, 0)

    def before_block(self, line: Line, board: Any, row: kl.Scalar, block: kl.Scalar) -> Any:
        """The total before a block, by levels, if need be from the last published since `row`."""
        PIECES = self.merge.kind.itemsize // 4
        words = kl.private((BLOCK_LEVELS * PIECES,), kl.u64)
        levels = levels_of(self.merge.nothing(), BLOCK_LEVELS)
        known = block
        missing = block > 0
        looks = 0
        while missing:
            missing = not board.looked_at(self.slot(board, row + known - 1), words, 0, BLOCK_LEVELS)
            if not missing:
                levels = tuple(
                    [joined(words, k * PIECES, self.merge.kind) for k in range(BLOCK_LEVELS)]
                )
            elif looks < self.patience:
                looks = looks + 1
            else:
                known = known - 1
                missing = known > 0
        for b in range(known, block):
            levels = self.published(board, row, b, levels, self.added_up(line, b))
        return levels

    def slot(self, board: Any, number: kl.Scalar) -> Any:
        """The first word about a block."""
        return board.slot(number * BLOCK_LEVELS)

    def published(
        self,
        board: Any,
        row: kl.Scalar,
        block: kl.Scalar,
        levels: tuple[kl.Scalar, ...],
        total: kl.Scalar,
    ) -> Any:
        """The levels with a block's own total, which others see by now."""
        added = chain_added(levels, block, total, self.merge.nothing(), self.merge)
        for k in kl.static_range(BLOCK_LEVELS):
            board.publish(board.slot((row + block) * BLOCK_LEVELS + k), added[k])
        return added


@kernel
def chained_block_scan(x: kl.Array, state: kl.Array, out: kl.Array, *, BLOCKS: Blocks) -> None:
    """Running totals of the last axis, in blocks for which work-items draw.

    Parameters
    ----------
    x, out : array
        What is read and written.
    state : array of uint64
        A word for the tickets, and for each block one for each 32 bits of `BLOCK_LEVELS` totals:
        zeros before the first launch, then what the last one over as many blocks and work-items
        left.
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
    total_here = MERGE.nothing()
    if number < total:
        line = Line(x, unravelled(number // blocks, lead))
        total_here = BLOCKS.added_up(line, number % blocks)
    while number < total:
        outer = unravelled(number // blocks, lead)
        block = number % blocks
        line, target = Line(x, outer), Line(out, outer)
        levels = BLOCKS.before_block(line, board, number - block, block)
        before = total_of_levels(levels, MERGE)
        BLOCKS.published(board, number - block, block, levels, total_here)
        if BLOCKS.shift == 1 and block == 0:
            out[*outer, 0] = MERGE.nothing()
        number = board.number_on(drawn(state))
        next_line = Line(x, unravelled(kl.minimum(number, total - 1) // blocks, lead))
        begin, next_begin = block * BLOCK, number % blocks * BLOCK
        stop = kl.minimum(begin + BLOCK, length)
        next_stop = kl.minimum(next_begin + BLOCK, length)
        if number >= total:
            next_stop = next_begin
        nothing, none = MERGE.nothing(), MERGE.spread(MERGE.nothing())
        done, new, both = levels_of(nothing, _LEVELS), levels_of(none, _LEVELS), 0
        # Scalars that are added up in two loops come out otherwise than in one: Intel's compiler
        # (2026.22.10) adds up parts of a loop's side by side.
        if MERGE.lanes > 1:
            CHAINED = BLOCKS.chain
            both = kl.minimum(stop - begin, next_stop - next_begin) // CHAINED
            for chain in range(both):
                carried, sums = nothing, none
                upto = MERGE(before, total_of_levels(done, MERGE))
                for r in range(chain * CHAINED, chain * CHAINED + CHAINED, MERGE.lanes):
                    mine = MERGE.read(line, begin + r)
                    other = MERGE.read(next_line, next_begin + r, ahead=BLOCKS.ahead)
                    carried = BLOCKS.put(target, begin + r, upto, carried, mine, MERGE)
                    sums = MERGE(sums, other)
                done = chain_added(done, chain, carried, nothing, MERGE)
                new = chain_added(new, chain, sums, none, MERGE)
        first = both * BLOCKS.chain
        BLOCKS.write_chains(line, target, begin + first, stop, before, done, both)
        total_here = BLOCKS.rest_added_up(next_line, next_begin + first, next_stop, new, both)


@kernel
def scan_rows(x: kl.Array, out: kl.Array, *, BLOCKS: Blocks, ROWS: int) -> None:
    """Running totals of the last axis: a work-item sweeps over each of `ROWS` rows.

    Parameters
    ----------
    x, out : array
        What is read and written.
    BLOCKS : Blocks
        How rows are written; they are not cut.
    """
    *lead, length = x.shape
    nothing = BLOCKS.merge.nothing()
    first = kl.global_id(0) * ROWS
    for row in range(first, kl.minimum(first + ROWS, product_of(lead))):
        outer = unravelled(row, lead)
        if BLOCKS.shift == 1:
            out[*outer, 0] = nothing
        lines = Line(x, outer), Line(out, outer)
        BLOCKS.write_chains(*lines, 0, length, nothing, levels_of(nothing, _LEVELS), 0)
