"""Variables, branches and loops under masks, by strands of a workgroup that go their own ways."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Final

import numpy as np

from portable.lang.ir import statements as s
from portable.lang.ir.pipeline import Pipeline, in_rounds
from portable.lang.ir.walks import all_statements
from portable.sim import report
from portable.sim.clocks import WARPGROUP
from portable.sim.evaluation import Evaluate
from portable.sim.launch import Site
from portable.sim.steps import Builder, Pauses, Plain, Runs, Step, step
from portable.sim.values import Active, LoopMasks, Value, select
from portable.sim.workgroup import Pause, Running, Strand, Workgroup

# Parts of a workgroup that go their own ways for a while.
#
# Work-items mostly run in step. Where the branches of an `If` wait for each other at mbarriers,
# each warpgroup of each branch becomes a strand with its own variables, and the strands take turns
# until all have come to the end of their branch. `Settings.turns` says which goes on when several
# can.

_FAIRNESS: Final = 1 / 16


def strands_of(
    w: Workgroup, branches: Sequence[tuple[Active, Callable[[Workgroup], Running]]]
) -> list[Strand]:
    """The strands of some blocks and those who run each."""
    out = []
    warpgroup = np.arange(w.size) // WARPGROUP
    for members, block in branches:
        for number in np.unique(warpgroup[members.ids]):
            mine = members.where(warpgroup == number)
            out.append(Strand(mine, mine, dict(w.env), list(w.loops), block(w)))
    return out


def run_strands(
    w: Workgroup, site: Site, strands: list[Strand], assigned: Sequence[str]
) -> Running:
    """Run strands to their ends, then go on in step with the variables that they `assigned`.

    Parameters
    ----------
    w : Workgroup
    site : Site
        The branch.
    strands : list of Strand
    assigned : sequence of str
    """
    if w.strands is None:
        w.strands = list(strands)
        yield from _take_turns(w, w.strands)
        w.strands = None
    else:
        w.strands += strands
        while not all(x.ended for x in strands):
            yield Pause(site, False, lambda: all(x.ended for x in strands))
    for name in assigned:
        for x in strands:
            if x.env[name] is not w.env[name]:
                w.env[name] = select(x.members.mask, x.env[name], w.env[name])
    w.active = Active(np.logical_or.reduce([x.active.mask for x in strands]))


def _take_turns(w: Workgroup, strands: list[Strand]) -> Running:
    while any(not x.ended for x in strands):
        ready = [x for x in strands if x.ready(w)]
        if not ready:
            if w.engine.advance(w):
                continue
            if not (yield from _stuck(w, strands)):
                return
            continue
        strand = _chosen(w, ready)
        pause = strand.turn(w)
        w.engine.perhaps(w)
        if pause is not None and not pause.stuck and pause.until is None:
            yield pause


def _chosen(w: Workgroup, ready: list[Strand]) -> Strand:
    """The one to go on; one that only loops is not preferred for ever."""
    chance = w.launch.chance
    if w.settings.turns == "random" or chance.random() < _FAIRNESS:
        return chance.choice(ready)
    prefer = min if w.settings.turns == "first" else max
    return prefer(ready, key=lambda x: int(x.members.ids[0]))


def _stuck(w: Workgroup, strands: list[Strand]) -> Generator[Pause, None, bool]:
    """Other workgroups may help one that loops; nobody helps those that wait at mbarriers."""
    pauses = [x.pause for x in strands if not x.ended and x.pause is not None]
    for pause in pauses:
        if pause.stuck:
            yield pause
            return True
    if w.settings.waits:
        waiting = next(x for x in strands if not x.ended)
        w.active = waiting.active
        assert waiting.pause is not None
        raise report.endless_wait(w, waiting.pause.site, report.NOBODY_COMES)
    for x in strands:
        x.running.close()
        x.ended = True
    return False


# -- control ---------------------------------------------------------------------------------------


def assign(w: Workgroup, name: str, value: Value) -> None:
    """Give a variable a new value for the active work-items.

    Parameters
    ----------
    w : Workgroup
    name : str
    value : numpy.ndarray
        For each work-item.
    """
    w.env[name] = value if w.active.full else select(w.active.mask, value, w.env[name])


@step.register
def _(statement: s.Let, b: Builder) -> Step:
    name, value = statement.var.name, b.expression(statement.value, b.site(statement.loc))

    def run(w: Workgroup) -> None:
        w.env[name] = value(w)

    return Plain(run)


@step.register
def _(statement: s.Assign, b: Builder) -> Step:
    name, value = statement.var.name, b.expression(statement.value, b.site(statement.loc))
    return Plain(lambda w: assign(w, name, value(w)))


@step.register
def _(statement: s.If, b: Builder) -> Step:
    condition = b.expression(statement.condition, b.site(statement.loc))
    then, orelse = b.block(statement.then), b.block(statement.orelse)
    if _diverges((*statement.then, *statement.orelse)):
        return _diverging_if(statement, b, condition, then, orelse)

    def run(w: Workgroup) -> Running:
        outer, holds = w.active, condition(w)
        taken = outer.where(holds)
        rest = outer.unless(holds) if 0 < taken.count < outer.count else outer
        other = w.launch.nobody if taken is outer else rest
        if taken.count:
            w.active = taken
            yield from then(w)
        after = w.active if taken.count else taken
        if other.count:
            w.active = other
            yield from orelse(w)
            unchanged = after is taken and w.active is other
            w.active = outer if unchanged else w.active.joined(after.mask)

    return Pauses(run)


def _diverges(block: s.Block) -> bool:
    """Whether a block waits for other work-items, but nowhere for all of them."""
    inside = list(all_statements(block))
    return any(isinstance(x, s.Instruction) and x.name == "mbarrier.wait" for x in inside) and (
        not any(isinstance(x, s.Barrier | s.WorkgroupUniform) for x in inside)
    )


def _diverging_if(
    statement: s.If, b: Builder, condition: Evaluate, then: Runs, orelse: Runs
) -> Step:
    """A branch whose sides, and the warpgroups on either, go on without each other."""
    site = b.site(statement.loc)
    names = _assigned((*statement.then, *statement.orelse))

    def run(w: Workgroup) -> Running:
        holds = condition(w)
        sides = ((w.active.where(holds), then), (w.active.unless(holds), orelse))
        taken = [side for side in sides if side[0].count]
        if len(taken) > 1:
            yield from run_strands(w, site, strands_of(w, sides), names)
        else:  # nobody goes another way: those who wait here may meet at barriers
            yield from taken[0][1](w)

    return Pauses(run)


@step.register
def _(statement: s.For, b: Builder) -> Step:
    site, name = b.site(statement.loc), statement.var.name
    bounds = b.expressions((statement.start, statement.stop, statement.step), site)
    body = b.block(statement.body)

    def run(w: Workgroup) -> Running:
        start, stop, by = (bound(w) for bound in bounds)
        trips = _trips(w.active.pick(start), w.active.pick(stop), w.active.pick(by))
        rounds = int(np.maximum.reduce(trips))
        same = rounds == int(np.minimum.reduce(trips))
        trips = w.active.spread(trips)
        loop = LoopMasks()
        w.loops.append(loop)
        for k in range(rounds):
            if not same:
                loop.leave(w.active.where(trips <= k))
                w.active = w.active.where(trips > k)
            w.env[name] = start
            start = start + by
            yield from body(w)
            w.active = loop.next_round(w.active)
            if not w.active.count:
                break
        w.loops.pop()
        w.active = w.active.joined(loop.left)

    return Pauses(run)


@step.register
def _(statement: Pipeline, b: Builder) -> Step:
    return step(in_rounds(statement), b)


def _trips(start: Value, stop: Value, by: Value) -> Value:
    """How many rounds Python's range makes, for each work-item."""
    if start.itemsize < 8:
        distance, stride = stop.astype(np.int64) - start, by.astype(np.int64)
        rounds = np.floor_divide(distance + stride - np.sign(stride), stride)
        least: Value = np.maximum(rounds, 0)
        return least
    triples = zip(start.tolist(), stop.tolist(), by.tolist(), strict=True)
    counts = [len(range(x, y, z)) if z else 0 for x, y, z in triples]
    return np.array(counts, np.int64)


@step.register
def _(statement: s.Loop, b: Builder) -> Step:
    site = b.site(statement.loc)
    stuck, moving = Pause(site, True), Pause(site, False)
    body = b.block(statement.body)
    names = _assigned(statement.body)

    def run(w: Workgroup) -> Running:
        loop = LoopMasks()
        w.loops.append(loop)
        while True:
            before = _State(w, names)
            yield from body(w)
            w.active = loop.next_round(w.active)
            if not w.active.count:
                break
            yield stuck if before.stands(w) else moving
        w.loops.pop()
        w.active = w.active.joined(loop.left)

    return Pauses(run)


def _assigned(block: s.Block) -> tuple[str, ...]:
    """Names of the variables that outlive a round and may change in it."""
    names = dict[str, None]()
    for statement in all_statements(block):
        names.update(dict.fromkeys(x.name for x in statement.sets()))
    return tuple(names)


class _State:
    """What a round of a loop starts from: if it ends the same, the next will do the same."""

    __slots__ = ("_active", "_changes", "_values", "_version")

    def __init__(self, w: Workgroup, names: tuple[str, ...]) -> None:
        self._values = {name: w.env[name] for name in names}
        self._changes = w.changes
        self._version = w.launch.version
        self._active: Active = w.active

    def stands(self, w: Workgroup) -> bool:
        """Whether nothing has changed since, by this workgroup or in global memory."""
        if w.changes != self._changes or w.launch.version != self._version:
            return False
        if w.active.count != self._active.count:
            return False
        return all(_same(w.env[name], old) for name, old in self._values.items())


def _same(x: Value, y: Value) -> bool:
    return x is y or x.tobytes() == y.tobytes()


@step.register(s.Break)
@step.register(s.Continue)
@step.register(s.Return)
def _(statement: s.Break | s.Continue | s.Return, b: Builder) -> Step:
    def run(w: Workgroup) -> None:
        if isinstance(statement, s.Break):
            w.loops[-1].leave(w.active)
        elif isinstance(statement, s.Continue):
            w.loops[-1].rest(w.active)
        w.active = w.launch.nobody

    return Plain(run)
