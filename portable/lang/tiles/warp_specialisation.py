"""Warp specialisation: a pipeline is split between warps that copy and warps that multiply.

The last warps are the producers, the others the consumers, and neither wait for more than they
need: two mbarriers for each slot of the ring say that it is full and that it is free. Producers
are up to all slots ahead; where such a loop stands in one over tiles, beyond a tile's end too,
while it is stored. (M. Bauer, H. Cook and B. Khailany, "CudaDMA: optimizing GPU memory
bandwidth via warp specialization", SC 2011.) Where TMA takes all copies of a round, one
work-item asks it for them: on an H200 half-precision products of 4096 took 0.85 of the time so.
Where that is one of a whole warpgroup, for many tiles, the others take registers from it: sums
leave few for what is done to a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from portable.dtypes import uint64
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import linear_local_id
from portable.lang.ir.pipeline import Pipeline, rounds_of
from portable.lang.ir.types import Array, Layout
from portable.lang.ir.walks import all_statements, resolved
from portable.lang.tiles.lanes import divided, remainder
from portable.lang.tiles.mma_shapes import LANES, LENDING, LENT
from portable.lang.tiles.work import Code, Work, add, smaller

GROUP: Final = 4 * LANES
"""Work-items of a warpgroup."""

_FEWEST_SLOTS: Final = 3

_STAGGER: Final = 300
"""Nanoseconds, about half of what a warpgroup takes for a tile of eight bits and its additions.

Warpgroups that begin together wait for the units and add together in every round. Apart, one adds
while the other multiplies: of three pairs of runs on an H200 two took 0.95 of the time, one 1.01.
"""

_KEPT: Final = 72
"""Registers of a work-item that lends some: as many in all as before, with the others' `LENT`."""

_OWN = s.FragmentFill, s.ForElements, s.FragmentStore
"""What of a loop over tiles those that multiply do alone."""

_IN_TILES = s.Let, s.Assign, Pipeline, *_OWN


@dataclass(frozen=True, slots=True)
class Split:
    """The producers' and the consumers' parts of a pipeline.

    Attributes
    ----------
    loop : For
        The loop, which counts from 0 on, or in a loop over tiles from where it ended before.
    copies, product : tuple of statements
        What producers and consumers do in a round, with the bindings that each needs.
    slots : int
        Of the ring; each round fills the one whose number is the round's, modulo `slots`.
    tensor_copies : bool
        Whether TMA makes the copies.
    around : For or None
        The loop over tiles.
    """

    loop: s.For
    copies: s.Block
    product: s.Block
    slots: int
    tensor_copies: bool = False
    around: s.For | None = None


def split(x: s.Statement, body: s.Block) -> Split | None:
    """A pipeline split, or the one in a loop over tiles; None where it has another form.

    `body` is the whole kernel's.
    """
    if isinstance(x, Pipeline):
        return _split(x) if _is(x.start, 0) else None
    if not isinstance(x, s.For) or not all(isinstance(y, _IN_TILES) for y in x.body):
        return None
    within = [y for y in x.body if isinstance(y, Pipeline)]
    if len(within) != 1:
        return None
    (loop,) = within
    pieces = _split(loop) if _goes_on(loop, x, body) else None
    return None if pieces is None else replace(pieces, around=x)


def split_of(work: Work, multiplies: list[s.Multiply]) -> Split | None:
    """The pipeline that can be split: passed once, it holds all these multiplications."""
    for x in work.kernel.body:
        pieces = split(x, work.kernel.body)
        if pieces is not None and multiplies == [y for y in pieces.product if y in multiplies]:
            return pieces
    return None


def _goes_on(loop: Pipeline, around: s.For, body: s.Block) -> bool:
    """Whether a loop begins with 0, and in further rounds of that around it where it ended."""
    values = {y.var.name: y.value for y in around.body if isinstance(y, s.Let)}
    counter = resolved(loop.start, values)
    moved = [y for y in all_statements(body) if isinstance(y, s.Assign) and y.var == counter]
    if len(moved) != 2 or not _is(moved[0].value, 0):
        return False
    after = around.body[around.body.index(loop) :]
    return moved[1] in after and resolved(moved[1].value, values) == resolved(loop.stop, values)


def _split(x: Pipeline) -> Split | None:
    if x.ahead or x.stages < _FEWEST_SLOTS or any(y.blocks() for y in x.copies):
        return None
    return Split(rounds_of(x, ()), x.copies, x.product, x.stages)


def _is(x: e.Expression, value: int) -> bool:
    return isinstance(x, e.Const) and x.value == value


def specialise(
    code: Code,
    pieces: Split,
    warpgroup: e.Expression,
    multiplying: int,
    forgotten: s.Block,
    settled: s.Block,
    staggered: bool,
) -> None:
    """Writes the two loops in place of the one.

    Parameters
    ----------
    code : Code
        Where to write them.
    pieces : Split
        The loop.
    warpgroup : Expression
        This work-item's.
    multiplying : int
        How many warpgroups multiply; the work-items beyond them copy.
    forgotten : tuple of statements
        What those that copy do at last: they set the registers that only the others use, so that
        these hold nothing while they copy.
    settled : tuple of statements
        What the others do at last.
    staggered : bool
        Whether of tiles in turn a second warpgroup begins its first later.
    """
    ring = _Ring.made(code.work, pieces.slots)
    copiers = code.work.items - multiplying * GROUP
    ring.begin(code, 1 if pieces.tensor_copies else 2 * copiers, multiplying)
    lends = pieces.tensor_copies and pieces.around and code.work.items == LENDING
    with code.when(e.Compare("eq", warpgroup, code.index(multiplying))):
        if lends:
            _registers(code, "registers.fewer", _KEPT)
        if pieces.tensor_copies:
            _produce_by_tma(code, pieces, ring, multiplying * GROUP)
        else:
            _produce(code, pieces, ring, (multiplying * GROUP, copiers))
        code.emit(*forgotten)
    with code.otherwise():
        if lends:
            _registers(code, "registers.more", LENT)
        if lends and staggered:
            with code.when(e.Compare("eq", warpgroup, code.index(1))):
                code.instruct("pause", inputs=(code.index(_STAGGER),))
        _consume(code, pieces, ring, settled)


def _registers(code: Code, word: str, count: int) -> None:
    """All work-items of a warpgroup give registers back or take some, to have so many."""
    code.instruct(word, inputs=(code.index(count),))


@contextmanager
def _rounds(code: Code, pieces: Split, finish: Callable[[], None] | None = None) -> Iterator[None]:
    """The loop, whose body is built inside, within that over tiles if there is one.

    Those who hold the result `finish` after the loop; others leave out what is done to it.
    """
    loop, around = pieces.loop, pieces.around
    at = next((i for i, x in enumerate(around.body) if isinstance(x, Pipeline)), 0) if around else 0
    finish_only = () if finish else _OWN
    before, after = (
        [x for x in part if not isinstance(x, finish_only)]
        for part in ((around.body[:at], around.body[at + 1 :]) if around else ((), ()))
    )
    with code.over(around) if around else nullcontext():
        code.emit(*before)
        with code.over(loop):
            yield
        if finish:
            finish()
        code.emit(*after)


@dataclass(frozen=True, slots=True)
class _Ring:
    """The mbarriers of a ring of slots."""

    filled: Array
    freed: Array
    slots: int

    @staticmethod
    def made(work: Work, slots: int) -> _Ring:
        layout = Layout.row_major((slots,))
        filled, freed = (
            work.array(name, uint64, "local", (slots,), layout) for name in ("filled", "freed")
        )
        return _Ring(filled, freed, slots)

    def begin(self, code: Code, filling: int, multiplying: int) -> None:
        """One work-item makes them, for so many arrivals in each round."""
        item = linear_local_id(code.work.kernel.workgroup, code.work.kernel.index_type)
        with code.when(e.Compare("eq", item, code.index(0))):
            for array, count in ((self.filled, filling), (self.freed, multiplying)):
                for slot in range(self.slots):
                    position = ((array, (code.index(slot),)),)
                    arrivals = (code.index(count),)
                    code.instruct("mbarrier.init.many", inputs=arrivals, addresses=position)
            code.instruct("mbarrier.init_fence")
        code.emit(s.Barrier(code.loc))

    def wait(self, code: Code, array: Array, turn: e.Expression, ahead: int) -> None:
        """Until the phase is over that the round is in, or the one `ahead` of it."""
        phase = remainder(add(divided(turn, self.slots), ahead), 2)
        slot = (self.place(array, turn),)
        code.instruct("mbarrier.wait", inputs=(phase,), addresses=slot)

    def place(self, array: Array, turn: e.Expression) -> s.Address:
        """A round's mbarrier."""
        return array, (remainder(turn, self.slots),)

    def arrive(self, code: Code, word: str, array: Array, turn: e.Expression, back: int) -> None:
        """At the mbarrier of the round so many rounds before."""
        slot = (self.place(array, add(turn, -back)),)
        code.instruct(word, addresses=slot)


def _produce_by_tma(code: Code, pieces: Split, ring: _Ring, by: int) -> None:
    """One work-item asks for a round's copies when its slot is free, and says how many bytes."""
    turn = pieces.loop.var
    item = linear_local_id(code.work.kernel.workgroup, code.work.kernel.index_type)
    copies = [x for x in pieces.copies if isinstance(x, s.CopyTile)]
    size = sum(prod(x.target.shape) * x.target.array.dtype.itemsize for x in copies)
    filled = ring.place(ring.filled, turn)
    with code.when(e.Compare("eq", item, code.index(by))), _rounds(code, pieces):
        ring.wait(code, ring.freed, turn, 1)
        code.emit(
            *(
                replace(x, by=(by, 1), completion=filled) if isinstance(x, s.CopyTile) else x
                for x in pieces.copies
            )
        )
        inputs = (code.index(size),)
        code.instruct("mbarrier.arrive.expecting", inputs=inputs, addresses=(filled,))


def _produce(code: Code, pieces: Split, ring: _Ring, by: tuple[int, int]) -> None:
    """Starts a round's copies when its slot is free, and goes on while they are under way.

    A slot is free when the multiplication after the one that read it has begun. Each work-item
    arrives twice: when its asynchronous copies have ended, and when it has gone past what it
    copied itself.
    """
    turn = pieces.loop.var
    with _rounds(code, pieces):
        ring.wait(code, ring.freed, turn, 1)
        code.emit(*(replace(x, by=by) if isinstance(x, s.CopyTile) else x for x in pieces.copies))
        ring.arrive(code, "mbarrier.arrive.copied", ring.filled, turn, 0)
        ring.arrive(code, "mbarrier.arrive", ring.filled, turn, 0)


def _consume(code: Code, pieces: Split, ring: _Ring, settled: s.Block) -> None:
    """Starts a round's product when its tiles are there; then the one before is over."""
    turn, begin, end = pieces.loop.var, pieces.loop.start, pieces.loop.stop
    item = linear_local_id(code.work.kernel.workgroup, code.work.kernel.index_type)
    first = e.Compare("eq", remainder(item, GROUP), code.index(0))

    def free(after: e.Expression) -> None:
        with code.when(e.Binary("and", first, smaller(begin, after))):
            ring.arrive(code, "mbarrier.arrive", ring.freed, after, 1)

    def finish() -> None:
        code.emit(*settled)
        if pieces.around is not None:
            free(end)

    with _rounds(code, pieces, finish):
        ring.wait(code, ring.filled, turn, 0)
        if not pieces.tensor_copies:
            code.instruct("proxy.fence")
        code.emit(*pieces.product)
        code.instruct("wgmma.wait.1")
        free(turn)
