"""Vector clocks: which accesses happen before which, among workgroups and their work-items.

A workgroup's time moves on at each barrier and each release in it. What an agent knows is, per
workgroup, a time up to which it knows of all accesses there (the floor), and later times for
single threads from which it has acquired. A thread is a work-item, or something that a scope
does together; threads are numbered ``workgroup * stride + number in the workgroup``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from portable.lang.ir.statements import MemoryScope
from portable.sim.values import Value

# Numbers for the threads of a workgroup, by which records of memory name them.

WARPGROUP: Final = 128
"""Work-items that multiply together; none waits without the others."""


class Threads:
    """Numbers of the threads of a workgroup: its work-items, and what they do together.

    Attributes
    ----------
    work_items : int
        Their number; they are 0 and up.
    copy : int
        Copies of whole tiles, shared out among the work-items in an unknown way.
    workgroup : int
        Matrix operations of the workgroup.
    sub_groups : int
        The first of the sub-groups' matrix operations.
    warpgroups : int
        The first of the warpgroups' multiplications.
    slots : int
        The first of the asynchronous copies that mbarriers count, two for each mbarrier: those
        through the asynchronous proxy, and the others.
    stride : int
        How many numbers a workgroup takes; the last stands for "many".
    """

    __slots__ = (
        "copy",
        "slots",
        "stride",
        "sub_group_size",
        "sub_groups",
        "warpgroups",
        "work_items",
        "workgroup",
    )

    def __init__(self, work_items: int, sub_group_size: int, mbarriers: int) -> None:
        self.work_items = work_items
        self.sub_group_size = sub_group_size
        self.copy = work_items
        self.workgroup = work_items + 1
        self.sub_groups = work_items + 2
        self.warpgroups = self.sub_groups + -(-work_items // sub_group_size)
        self.slots = self.warpgroups + -(-work_items // WARPGROUP)
        self.stride = self.slots + 2 * mbarriers + 1

    def slot(self, mbarrier: int, proxy: str) -> int:
        """The thread of the copies through a proxy that an mbarrier counts."""
        return self.slots + 2 * mbarrier + (proxy == "generic")

    def generic(self, threads: Value) -> Value:
        """Which of these access memory as work-items do."""
        generic: Value = (threads < self.slots) | ((threads - self.slots) % 2 == 1)
        return generic


# -- clocks ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Clock:
    """A state of knowledge.

    Attributes
    ----------
    floors : numpy.ndarray of int32
        For each workgroup.
    later : dict of int to numpy.ndarray of int32
        Times of each thread of some workgroups, 0 where there are no later ones. Clocks share
        these arrays, which are never changed.
    """

    floors: Value
    later: dict[int, Value] = field(default_factory=dict)

    def copy(self) -> Clock:
        """An independent copy."""
        return Clock(self.floors.copy(), dict(self.later))

    def join(self, other: Clock) -> None:
        """Learn what another knows."""
        np.maximum(self.floors, other.floors, out=self.floors)
        for workgroup, times in other.later.items():
            mine = self.later.get(workgroup)
            if mine is None:
                self.later[workgroup] = times
            elif mine is not times:
                self.later[workgroup] = np.maximum(mine, times)

    def tell(self, workgroup: int, threads: Value | int, time: int, stride: int) -> None:
        """Learn of all that some of a workgroup's `stride` threads did until now, its `time`."""
        known = self.later.get(workgroup)
        times = np.zeros(stride, np.int32) if known is None else known.copy()
        times[threads] = time
        self.later[workgroup] = times

    def knows(self, thread: int, workgroup: int, time: int) -> bool:
        """Whether an access by `thread` at `time` came before."""
        if time <= self.floors[workgroup]:
            return True
        times = self.later.get(workgroup)
        return times is not None and time <= int(times[thread % times.size])


def joined(first: Clock | None, second: Clock) -> Clock:
    """The two together, in a clock of its own."""
    out = second.copy()
    if first is not None:
        out.join(first)
    return out


@dataclass(slots=True)
class Published:
    """What an acquire of one memory location learns, by the scope of the releases."""

    device: Clock | None = None
    workgroups: dict[int, Clock] = field(default_factory=dict)

    def add(self, clock: Clock, scope: MemoryScope, workgroup: int) -> None:
        """A release through this location."""
        self.workgroups[workgroup] = joined(self.workgroups.get(workgroup), clock)
        if scope == "device":
            self.device = joined(self.device, clock)

    def seen(self, scope: MemoryScope, workgroup: int) -> Clock | None:
        """What an acquire in `workgroup` learns."""
        clock = self.workgroups.get(workgroup)
        if scope == "workgroup" or self.device is None:
            return clock
        return self.device if clock is None else joined(self.device, clock)


class WorkgroupClock:
    """The knowledge of a workgroup's work-items.

    Attributes
    ----------
    time : int
        The workgroup's own time; accesses are recorded at it.
    common : Clock
        What all its work-items know, as of the last barrier.
    private : dict of int to Clock
        What single work-items have acquired since, by local id; several may share a clock,
        which is never changed.
    """

    __slots__ = ("_single", "common", "private", "stride", "time", "workgroup")

    def __init__(self, workgroup: int, workgroups: int, stride: int, work_items: int) -> None:
        self.workgroup = workgroup
        self.stride = stride
        self.time = 1
        self.common = Clock(np.zeros(workgroups, np.int32))
        self.private: dict[int, Clock] = {}
        self._single = work_items == 1

    def barrier(self) -> None:
        """All work-items meet and share what they know."""
        for clock in {id(clock): clock for clock in self.private.values()}.values():
            self.common.join(clock)
        self.private.clear()
        self.common.later.pop(self.workgroup, None)
        self.common.floors[self.workgroup] = self.time
        self.time += 1

    def snapshot(self, item: int) -> Clock:
        """What a release by a work-item publishes now; call `tick` after the statement."""
        clock = joined(self.private.get(item), self.common)
        if self._single:
            clock.floors[self.workgroup] = self.time
        else:
            clock.tell(self.workgroup, item, self.time, self.stride)
        return clock

    def tick(self) -> None:
        """Later accesses are no part of the releases made so far."""
        self.time += 1

    def acquire(self, item: int, clock: Clock) -> None:
        """One work-item learns."""
        if self._single:
            self.common.join(clock)
        else:
            self.private[item] = joined(self.private.get(item), clock)

    def release(self, items: Value) -> Clock:
        """What several work-items publish at once; call `tick` after the statement."""
        clock = self.common.copy()
        for known in self._distinct(items).values():
            if known is not None:
                clock.join(known)
        if self._single:
            clock.floors[self.workgroup] = self.time
        else:
            clock.tell(self.workgroup, items, self.time, self.stride)
        return clock

    def acquire_together(self, items: Value, clock: Clock) -> None:
        """Several work-items learn the same; who knew the same before goes on sharing a clock."""
        if self._single:
            self.common.join(clock)
            return
        learnt = {key: joined(old, clock) for key, old in self._distinct(items).items()}
        for item in items.tolist():
            self.private[item] = learnt[id(self.private.get(item))]

    def _distinct(self, items: Value) -> dict[int, Clock | None]:
        """The clocks that these work-items have of their own, each once."""
        clocks = map(self.private.get, items.tolist())
        return {id(clock): clock for clock in clocks}

    def times_known(self, item: int, workgroup: int) -> Value:
        """Per thread of a workgroup, up to what time a work-item knows of its accesses."""
        out = np.full(self.stride, self.common.floors[workgroup], np.int64)
        mine = self.private.get(item)
        for clock in (self.common,) if mine is None else (self.common, mine):
            np.maximum(out, clock.floors[workgroup], out=out)
            if workgroup in clock.later:
                np.maximum(out, clock.later[workgroup], out=out)
        return out

    @property
    def plain(self) -> bool:
        """Whether the common floors are all there is to know."""
        return not self.private and not self.common.later

    def knows(self, item: int, thread: int, time: int) -> bool:
        """Whether an access by `thread` at `time` came before what `item` does now."""
        workgroup = thread // self.stride
        if self.common.knows(thread, workgroup, time):
            return True
        mine = self.private.get(item)
        return mine is not None and mine.knows(thread, workgroup, time)
