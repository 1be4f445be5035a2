"""Loads, stores and atomics, which go one work-item after the other by linear local ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.types import lanes_of, scalar_of
from portable.sim import report
from portable.sim.clocks import Clock, Published, joined
from portable.sim.evaluation import Evaluate
from portable.sim.launch import Site
from portable.sim.memory import Access, advanced, locate, read, write
from portable.sim.shadow import AccessKind
from portable.sim.steps import Builder, Pauses, Plain, Step, step
from portable.sim.values import Value
from portable.sim.workgroup import Pause, Running, Workgroup

# Plain loads and stores, checks, and printing.


_KEPT: Final = 256
"""Of a statement, so many places of a workgroup's own array are kept."""


class _Place:
    """Where a load or store goes: which components of which elements, per work-item."""

    def __init__(self, statement: s.Load | s.Store, lanes: int, b: Builder) -> None:
        self._site: Site = b.site(statement.loc, statement.array)
        self._index: tuple[Evaluate, ...] = b.expressions(statement.index, self._site)
        self._lanes = lanes
        self._axis = statement.axis % max(statement.array.ndim, 1)
        self._whole = statement.array.lanes > 1
        self._component = statement.component or 0
        self._runs_on = statement.runs_on
        self._array = statement.array
        self._keeps = statement.array.space != "global" and not statement.runs_on
        self._fixed = all(isinstance(x, e.Const) for x in statement.index)
        self._known: dict[tuple[bytes, ...], tuple[tuple[Value, ...], Value, Value]] = {}

    def access(self, w: Workgroup) -> Access:
        """The components that the active work-items mean.

        All workgroups lay their own arrays out alike, and loops come to the same places again,
        which are found once.
        """
        index = tuple([i(w) for i in self._index])
        if not self._keeps or not w.active.full:
            return self._found(w, index)
        key = () if self._fixed else tuple([i.tobytes() for i in index])
        where = self._known.get(key)
        if where is not None:
            return Access(self._site, w.buffers[self._array], *where, None)
        access = self._found(w, index)
        if access.kept is None and len(self._known) < _KEPT:
            self._known[key] = access.index, access.items, access.offsets
        return access

    def _found(self, w: Workgroup, index: tuple[Value, ...]) -> Access:
        items, component = w.active.ids, self._component
        if not w.active.full:
            index = tuple([i[items] for i in index])
        if self._runs_on:
            *lead, last = (i.astype(np.int64) for i in index)
            extents = w.buffers[self._site.array].extents  # type: ignore[index]
            index = advanced([*lead, np.zeros_like(last)], last, extents)
        if self._lanes == 1:
            return locate(w, self._site, index, items, component)
        lane = np.arange(self._lanes * items.size) % self._lanes
        wide = [i.astype(np.int64).repeat(self._lanes) for i in index]
        items = items.repeat(self._lanes)
        if self._whole:
            return locate(w, self._site, tuple(wide), items, lane)
        wide[self._axis] += lane
        return locate(w, self._site, tuple(wide), items, component)


@step.register
def _(statement: s.Load, b: Builder) -> Step:
    lanes, name = lanes_of(statement.var.type), statement.var.name
    register = scalar_of(statement.var.type).numpy
    location = _Place(statement, lanes, b)

    def run(w: Workgroup) -> None:
        texts = read(w, location.access(w)).astype(register, copy=False)
        w.bind(name, texts if lanes == 1 else texts.reshape(-1, lanes))

    return Plain(run)


@step.register
def _(statement: s.Store, b: Builder) -> Step:
    position = _Place(statement, lanes_of(statement.value.type), b)
    value = b.expression(statement.value, b.site(statement.loc))
    storage = statement.array.dtype.real.numpy

    def run(w: Workgroup) -> None:
        narrowed: Value = w.active.pick(value(w)).astype(storage, copy=False)
        write(w, position.access(w), narrowed.reshape(-1))

    return Plain(run)


@step.register
def _(statement: s.Check, b: Builder) -> Step:
    site = b.site(statement.loc)
    condition = b.expression(statement.condition, site)

    def run(w: Workgroup) -> None:
        failed = w.active.ids[~w.active.pick(condition(w))]
        if failed.size:
            raise report.failed_check(w, site, statement.message, failed)

    return Plain(run)


@step.register
def _(statement: s.Print, b: Builder) -> Step:
    site = b.site(statement.loc)
    pieces = tuple(
        piece if isinstance(piece, str) else b.expression(piece, site) for piece in statement.pieces
    )

    def run(w: Workgroup) -> None:
        result = [piece if isinstance(piece, str) else piece(w) for piece in pieces]
        for item in w.active.ids.tolist():
            line = "".join(x if isinstance(x, str) else str(x[item]) for x in result)
            print(line)  # noqa: T201  (this is what kl.print is for)

    return Plain(run)


# What releases and acquires, by atomics and fences, tell one work-item of others' accesses.

_ACQUIRES = ("acquire", "acq_rel")
_RELEASES = ("release", "acq_rel")
_SCOPES: tuple[s.MemoryScope, ...] = ("workgroup", "device")


def synchronise(w: Workgroup, statement: s.Atomic, access: Access, stored: Value) -> None:
    """Let the work-items learn and publish, one after the other.

    A store without release ends what earlier releases through its place have published; an
    operation that reads and writes hands it on.

    Parameters
    ----------
    w : Workgroup
    statement : Atomic
    access : Access
        Where.
    stored : numpy.ndarray of bool
        Which work-items wrote.
    """
    shadow = access.buffer.shadow
    if shadow is None:
        return
    granules = access.granules[:: access.buffer.spans].tolist()
    for i, (item, granule) in enumerate(zip(access.items.tolist(), granules, strict=True)):
        published = shadow.published.get(granule)
        if statement.op != "store" and published is not None:
            _learn(w, item, statement.order, statement.scope, published)
        if not stored[i]:
            continue
        if statement.op == "store" or published is None:
            published = shadow.published[granule] = Published()
        _publish(w, item, statement.order, statement.scope, published)
    if statement.order in _RELEASES:
        w.clock.tick()


def _learn(
    w: Workgroup, item: int, order: s.MemoryOrder, scope: s.MemoryScope, published: Published
) -> None:
    """Acquire now, or keep what the next acquire fence will acquire."""
    if order in _ACQUIRES:
        seen = published.seen(scope, w.number)
        if seen is not None:
            w.clock.acquire(item, seen)
        return
    for fence_scope in _SCOPES:
        seen = published.seen(_narrower(scope, fence_scope), w.number)
        if seen is not None:
            key = (item, "acquire", fence_scope)
            w.fences[key] = joined(w.fences.get(key), seen)


def _publish(
    w: Workgroup, item: int, order: s.MemoryOrder, scope: s.MemoryScope, published: Published
) -> None:
    """Release now, or what the last release fence released."""
    if order in _RELEASES:
        published.add(w.clock.snapshot(item), scope, w.number)
        return
    for fence_scope in _SCOPES:
        clock = w.fences.get((item, "release", fence_scope))
        if clock is not None:
            published.add(clock, _narrower(scope, fence_scope), w.number)


def _narrower(x: s.MemoryScope, y: s.MemoryScope) -> s.MemoryScope:
    return "device" if x == y == "device" else "workgroup"


def fence(w: Workgroup, order: s.MemoryOrder, scope: s.MemoryScope) -> None:
    """A fence of every active work-item.

    Parameters
    ----------
    w : Workgroup
    order : MemoryOrder
    scope : MemoryScope
    """
    if not w.settings.races:
        return
    for item in w.active.ids.tolist():
        if order in _ACQUIRES:
            learnt: Clock | None = w.fences.pop((item, "acquire", scope), None)
            if learnt is not None:
                w.clock.acquire(item, learnt)
        if order in _RELEASES:
            w.fences[(item, "release", scope)] = w.clock.snapshot(item)
    if order in _RELEASES:
        w.clock.tick()


# -- atomics ---------------------------------------------------------------------------------------

_CHAINS: Final[dict[str, np.ufunc]] = {
    "add": np.add,
    "sub": np.subtract,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}

_KINDS: Final[dict[str, AccessKind]] = {"load": "atomic read", "store": "atomic write"}
_WITHIN: Final[dict[AccessKind, AccessKind]] = {
    "atomic read": "workgroup atomic read",
    "atomic write": "workgroup atomic write",
    "atomic update": "workgroup atomic update",
}
"""What they are of workgroup scope, where other workgroups can see it."""


@step.register
def _(statement: s.Atomic, b: Builder) -> Step:
    site = b.site(statement.loc, statement.array)
    index = b.expressions(statement.index, site)
    value = None if statement.value is None else b.expression(statement.value, site)
    expected = None if statement.expected is None else b.expression(statement.expected, site)
    everywhere = statement.array.space == "global"
    kind = _KINDS.get(statement.op, "atomic update")
    if everywhere and statement.scope == "workgroup":
        kind = _WITHIN[kind]
    pause = Pause(site, False)

    def run(w: Workgroup) -> Running:
        if everywhere and w.launch.group_count > 1:
            yield pause
        access = locate(w, site, tuple(w.active.pick(i(w)) for i in index), w.active.ids)
        if access.buffer.shadow is not None:
            access.buffer.shadow.access(w, access, kind)
        operands = [
            None if x is None else access.inside(w.active.pick(x(w))) for x in (value, expected)
        ]
        old, stored = _perform(w, statement.op, access, *operands)
        if statement.var is not None:
            w.bind(statement.var.name, access.complete(old))
        if w.launch.survey.ordered and w.settings.races:
            synchronise(w, statement, access, stored)

    return Pauses(run)


@step.register
def _(statement: s.Fence, b: Builder) -> Step:
    return Plain(lambda w: fence(w, statement.order, statement.scope))


def _perform(
    w: Workgroup, op: s.AtomicOp, access: Access, value: Value | None, expected: Value | None
) -> tuple[Value, Value]:
    """Do it; gives the values from before, and which of the operations stored something."""
    data, offsets = access.buffer.data, access.offsets
    before = data[offsets]
    old = before.copy()
    stored = np.full(old.shape, op != "load")
    for places in _rounds(offsets, op):
        old[places], stored[places] = _chain(op, data, offsets[places], value, expected, places)
    if data[offsets].tobytes() != before.tobytes():
        w.changed(access.buffer)
    return old, stored


def _rounds(offsets: Value, op: str) -> Iterator[Any]:
    """Sets of positions, each either of different places or all of one place."""
    if op == "load":
        return
    if offsets.size == 1 or np.unique(offsets).size == offsets.size:
        yield slice(None)
        return
    order = np.argsort(offsets, kind="stable")
    bounds = np.flatnonzero(np.diff(offsets[order])) + 1
    yield from np.split(order, bounds)


def _chain(
    op: s.AtomicOp,
    data: Value,
    offsets: Value,
    value: Value | None,
    expected: Value | None,
    places: Any,
) -> tuple[Value, Value | bool]:
    """Operations on different places, or one after the other on one place."""
    assert value is not None
    value = value[places].astype(data.dtype, copy=False)
    if op == "compare_exchange":
        assert expected is not None
        return _compare_exchange(data, offsets, value, expected[places])
    single = offsets.size > 1 and offsets[0] == offsets[-1]
    combine: Callable[..., Value] = _CHAINS.get(op, _second)
    old = data[offsets]
    if not single:
        data[offsets] = combine(old, value)
        return old, True
    chain = np.concatenate([old[:1], value])
    if op in _CHAINS:
        chain = _CHAINS[op].accumulate(chain, dtype=data.dtype)
    data[offsets[0]] = chain[-1]
    return chain[:-1], True


def _second(old: Value, value: Value) -> Value:
    """An exchange or a store."""
    return value


def _compare_exchange(
    data: Value, offsets: Value, value: Value, expected: Value
) -> tuple[Value, Value]:
    old, stored = np.empty_like(value), np.zeros(value.shape, np.bool_)
    for i, offset in enumerate(offsets.tolist()):
        old[i] = data[offset]
        stored[i] = old[i] == expected[i]
        if stored[i]:
            data[offset] = value[i]
    return old, stored
