"""What releases and acquires, by atomics and fences, tell one work-item of others' accesses."""

from __future__ import annotations

from portable.lang.ir import statements as s
from portable.sim.clocks import Clock, Published, joined
from portable.sim.memory import Access
from portable.sim.values import Value
from portable.sim.workgroup import Workgroup

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
