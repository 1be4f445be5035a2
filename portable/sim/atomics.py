"""Atomic operations: one work-item after the other, in the order of their linear local ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from portable.lang.ir import statements as s
from portable.sim.clocks import Clock, Published, joined
from portable.sim.memory import Access, AccessKind, locate
from portable.sim.values import Value
from portable.sim.workgroup import Builder, Pause, Pauses, Plain, Running, Step, Workgroup, step

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
