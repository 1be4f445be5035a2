"""What the asynchronous proxy sees of memory.

Bulk copies and the multiplications of warpgroups reach memory by a way of their own. What
work-items wrote, or have waited for, they see only if a proxy fence stands between: after the
write, and before what they do, in the order that barriers and mbarriers make. One kind of fence is
for local memory, the other for all. (PTX ISA, "Proxies".)
"""

from __future__ import annotations

import numpy as np

from portable.sim import report
from portable.sim.clocks import Clock, joined
from portable.sim.group import Group
from portable.sim.memory import Access
from portable.sim.values import Value


class Proxies:
    """What the work-items of a workgroup know to be behind a proxy fence.

    Of local memory, knowledge is an array with, for each thread of the workgroup, the time up to
    which all that it wrote is behind one; of global memory a `Clock`, which barriers pass on.
    """

    __slots__ = ("_common", "_everywhere", "_known", "_own", "_shared")

    def __init__(self, work_items: int, stride: int) -> None:
        self._common: Value = np.zeros(stride, np.int64)
        self._known: dict[int, Value] = {}
        self._own: Value = np.zeros(work_items, np.int64)
        self._everywhere: dict[int, Clock] = {}
        self._shared: Clock | None = None

    def fence(self, w: Group, everywhere: bool = False) -> None:
        """A fence by every active work-item: all that it knows of is behind it."""
        if everywhere:
            for item in w.active.ids.tolist():
                self._everywhere[item] = joined(self._shared, w.clock.snapshot(item))
        made: dict[tuple[int, int], Value] = {}
        for item in w.active.ids.tolist():
            clock, known = w.clock.private.get(item), self._known.get(item)
            key = id(clock), id(known)
            if key not in made:
                before = self._common if known is None else known
                made[key] = np.maximum(before, w.clock.times_known(item, w.number))
            self._known[item] = made[key]
        self._own[w.active.ids] = w.clock.time
        w.clock.tick()

    def barrier(self) -> None:
        """All work-items meet and share what they know."""
        for known in {id(known): known for known in self._known.values()}.values():
            np.maximum(self._common, known, out=self._common)
        self._known.clear()
        mine = self._common[: self._own.size]
        np.maximum(mine, self._own, out=mine)
        for clock in self._everywhere.values():
            self._shared = joined(self._shared, clock)
        self._everywhere.clear()

    def release(self, items: Value) -> Value:
        """What these work-items know together."""
        out = self._common.copy()
        for known in {id(k): k for k in map(self._known.get, items.tolist())}.values():
            if known is not None:
                np.maximum(out, known, out=out)
        out[items] = np.maximum(out[items], self._own[items])
        return out

    def acquire(self, items: Value, published: Value) -> None:
        """These work-items learn."""
        made: dict[int, Value] = {}
        for item in items.tolist():
            known = self._known.get(item)
            if id(known) not in made:
                before = self._common if known is None else known
                made[id(known)] = np.maximum(before, published)
            self._known[item] = made[id(known)]

    def check(self, w: Group, access: Access, kind: str) -> None:
        """An access through the asynchronous proxy must see the latest writes of work-items."""
        shadow = access.buffer.shadow
        if shadow is None or shadow.races is None or not w.settings.copies:
            return
        latest = shadow.races.latest_writes(access.granules)
        if latest is None:
            return
        threads, times, sites = latest
        items = access.threads(w) % w.clock.stride
        doubtful = (times > 0) & w.launch.threads.generic(threads % w.clock.stride)
        sees = self._sees_local if access.array.space == "local" else self._sees_global
        for item in np.unique(items[doubtful]).tolist():
            mine = np.flatnonzero(doubtful & (items == item))
            unseen = mine[~sees(w, item, threads[mine], times[mine])]
            if unseen.size:
                at = int(unseen[0])
                raise report.unfenced(w, access, kind, at, int(threads[at]), int(sites[at]))

    def _sees_local(self, w: Group, item: int, threads: Value, times: Value) -> Value:
        """Which writes by threads at times are behind a fence that a work-item knows of."""
        item_here = threads - w.number * w.clock.stride
        seen: Value = times <= self._known.get(item, self._common)[item_here]
        seen |= (item_here == item) & (times <= self._own[item])
        return seen

    def _sees_global(self, w: Group, item: int, threads: Value, times: Value) -> Value:
        """The same of global memory."""
        known = self._everywhere.get(item, self._shared)
        writes = np.stack([threads, times], 1)
        each, which = np.unique(writes, axis=0, return_inverse=True)
        seen = [
            known is not None and known.knows(thread, thread // w.clock.stride, time)
            for thread, time in each.tolist()
        ]
        seen_by: Value = np.array(seen, np.bool_)[which.reshape(-1)]
        return seen_by
