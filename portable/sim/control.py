"""Variables, branches and loops under masks."""

from __future__ import annotations

import numpy as np

from portable.lang.ir import statements as s
from portable.lang.ir.kernel import all_statements
from portable.lang.ir.pipeline import Pipeline, in_rounds
from portable.sim.active import Active, LoopMasks
from portable.sim.expressions import Builder, Evaluate, Pauses, Plain, Runs, Step, step
from portable.sim.strands import Pause, Running
from portable.sim.turns import apart, divided
from portable.sim.values import Value, select
from portable.sim.workgroup import Workgroup


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
    if _goes_apart((*statement.then, *statement.orelse)):
        return _apart(statement, b, condition, then, orelse)

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


def _goes_apart(block: s.Block) -> bool:
    """Whether a block waits for other work-items, but nowhere for all of them."""
    inside = list(all_statements(block))
    return any(isinstance(x, s.Instruction) and x.name == "mbarrier.wait" for x in inside) and (
        not any(isinstance(x, s.Barrier | s.WorkgroupUniform) for x in inside)
    )


def _apart(statement: s.If, b: Builder, condition: Evaluate, then: Runs, orelse: Runs) -> Step:
    """A branch whose sides, and the warpgroups on either, go on without each other."""
    site = b.site(statement.loc)
    names = _assigned((*statement.then, *statement.orelse))

    def run(w: Workgroup) -> Running:
        holds = condition(w)
        sides = ((w.active.where(holds), then), (w.active.unless(holds), orelse))
        taken = [side for side in sides if side[0].count]
        if len(taken) > 1:
            yield from apart(w, site, divided(w, sides), names)
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


@step.register
def _(statement: s.Break, b: Builder) -> Step:
    def run(w: Workgroup) -> None:
        w.loops[-1].leave(w.active)
        w.active = w.launch.nobody

    return Plain(run)


@step.register
def _(statement: s.Continue, b: Builder) -> Step:
    def run(w: Workgroup) -> None:
        w.loops[-1].rest(w.active)
        w.active = w.launch.nobody

    return Plain(run)


@step.register
def _(statement: s.Return, b: Builder) -> Step:
    def run(w: Workgroup) -> None:
        w.active = w.launch.nobody

    return Plain(run)
