"""What the asynchronous proxy sees of local memory.

Bulk copies and the multiplications of warpgroups reach local memory by a way of their own. What
work-items wrote there they see only if a proxy fence stands between: after the write, and before
what they do, in the order that barriers and mbarriers make. (PTX ISA, "Proxies".)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from portable.sim import report
from portable.sim.values import Value

if TYPE_CHECKING:
    from portable.sim.memory import Access
    from portable.sim.workgroup import Workgroup

__all__ = ["Proxies"]


class Proxies:
    """What the work-items of a workgroup know to be behind a proxy fence.

    Knowledge is an array with, for each thread of the workgroup, the time up to which all that it
    wrote is behind one.
    """

    __slots__ = ("_common", "_known", "_own")

    def __init__(self, work_items: int, stride: int) -> None:
        self._common: Value = np.zeros(stride, np.int64)
        self._known: dict[int, Value] = {}
        self._own: Value = np.zeros(work_items, np.int64)

    def fence(self, w: Workgroup) -> None:
        """A fence by every active work-item: all that it knows of is behind it."""
        made: dict[tuple[int, int], Value] = {}
        for item in w.active.ids.tolist():
            clock, known = w.clock.private.get(item), self._known.get(item)
            key = id(clock), id(known)
            if key not in made:
                before = self._common if known is None else known
                made[key] = np.maximum(before, w.clock.times_known(item))
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

    def check(self, w: Workgroup, access: Access, kind: str) -> None:
        """An access through the asynchronous proxy must see the latest writes of work-items."""
        shadow = access.buffer.shadow
        if shadow is None or shadow.races is None or access.buffer.array.space != "local":
            return
        latest = shadow.races.latest_writes(access.granules)
        if latest is None or not w.settings.copies:
            return
        threads, times, sites = latest
        items = access.threads(w) % w.clock.stride
        unseen = (times > 0) & w.launch.threads.generic(threads)
        for item in np.unique(items[unseen]).tolist():
            mine = unseen & (items == item)
            known = self._known.get(item, self._common)[threads[mine]]
            seen = (times[mine] <= known) | (
                (threads[mine] == item) & (times[mine] <= self._own[item])
            )
            if not seen.all():
                at = int(np.flatnonzero(mine)[np.flatnonzero(~seen)[0]])
                raise report.unfenced(w, access, kind, at, int(threads[at]), int(sites[at]))
