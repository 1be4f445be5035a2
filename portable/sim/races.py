"""Finding unordered accesses: per piece of memory, the accesses that later ones must follow.

Two accesses of one piece of memory by different threads race unless one happens before the other,
when one of them is a plain write, or one is plain and the other an atomic that writes, or both are
atomics of two workgroups, one of which writes and one of which is of workgroup scope. The order in
which the simulator happened to run them does not matter; only `clocks` does.

Memory is cut into granules, the largest pieces that no access splits. Of plain writes the last is
enough: all earlier ones happen before it, or were reported. Of reads and atomics, several may be
unordered among themselves, and all of them count.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from portable.sim.launch import Group, Touch
from portable.sim.values import Value

_FEW: Final = 8
"""Of so many workgroups the latest accesses are looked at before all of them are."""

_SITES: Final = 24
"""Bits of a stamp that name the site; the rest are the time."""


class Collision(NamedTuple):
    """An access that is not ordered with an earlier one."""

    position: int
    kind: str
    thread: int
    site: int


class _Log:
    """All accesses of a workgroup, in the order of their times."""

    __slots__ = ("_columns", "_size")

    def __init__(self) -> None:
        self._columns = np.empty((3, 64), np.int64)  # granules, threads, times
        self._size = 0

    def add(self, granules: Value, threads: Value, time: int) -> None:
        """Note some, no earlier than the last."""
        first, self._size = self._size, self._size + granules.size
        if self._size > self._columns.shape[1]:
            larger = np.empty((3, 2 * self._size), np.int64)
            larger[:, :first] = self._columns[:, :first]
            self._columns = larger
        new = self._columns[:, first : self._size]
        new[0], new[1], new[2] = granules, threads, time

    def since(self, time: int) -> Value:
        """Rows of the granules, threads and times of those after a time."""
        first = int(np.searchsorted(self._columns[2, : self._size], time, side="right"))
        columns: Value = self._columns[:, first : self._size]
        return columns


class _Records:
    """The latest accesses of one kind to every granule, by thread and stamp: time and site.

    Where several threads of one workgroup made unordered accesses, the thread is the workgroup's
    pseudo-thread "many" and `pair` holds two of them. Unordered accesses of other workgroups
    spill into a dictionary.
    """

    __slots__ = (
        "_latest",
        "_log",
        "kind",
        "many",
        "pair",
        "spilled",
        "stamp",
        "stride",
        "thread",
    )

    def __init__(self, kind: str, granules: int, stride: int, ordered: bool) -> None:
        self.kind = kind
        self.stride = stride
        self.many = stride - 1
        self.thread = np.zeros(granules, np.int64)
        self.stamp = np.zeros(granules, np.int64)
        self.pair: Value | None = None
        self.spilled: dict[int, dict[int, tuple[int, int]]] = {}
        self._latest: dict[int, int] = {}  # by workgroup
        self._log: dict[int, _Log] | None = {} if ordered else None

    # -- asking -------------------------------------------------------------------------------

    def collision(
        self, w: Group, granules: Value, threads: Value, together: bool, foreign: bool
    ) -> Collision | None:
        """The first of these accesses that some earlier one here does not happen before.

        Only those of other workgroups count where `foreign`.
        """
        if self._all_before(w):
            return None
        before = self._before(w, granules, threads, together)
        if foreign:
            before |= self.thread[granules] // self.stride == w.number
        if np.count_nonzero(before) < before.size:
            late = np.flatnonzero(~before)
            i = self._first_unknown(w, granules, threads, late)
            if i is not None:
                granule = int(granules[i])
                other = self._other(granule, int(threads[i]))
                return Collision(i, self.kind, other, int(_site(self.stamp[granule])))
        return self._spilled_collision(w, granules, threads, foreign)

    def _all_before(self, w: Group) -> bool:
        """Whether the common floors order all there is, by the latest of each workgroup."""
        if len(self._latest) > _FEW:
            return False
        floors = w.clock.common.floors
        for workgroup, time in self._latest.items():  # noqa: SIM110  (`all` takes twice as long)
            if time > floors[workgroup]:
                return False
        return True

    def _before(self, w: Group, granules: Value, threads: Value, together: bool) -> Value:
        """Where the common floors alone order the accesses."""
        earlier, floors = self.thread[granules], w.clock.common.floors
        alone = len(self._latest) == 1 and w.number in self._latest
        known = int(floors[w.number]) if alone else floors[earlier // self.stride].astype(np.int64)
        before: Value = self.stamp[granules] < (known + 1 << _SITES)
        if not together:
            before |= earlier == threads
        return before

    def _first_unknown(self, w: Group, granules: Value, threads: Value, late: Value) -> int | None:
        """The first of some positions whose work-item does not know of the earlier access."""
        if w.clock.plain:
            return int(late[0])
        crowded = self.thread[granules[late]] % self.stride == self.many
        records = [
            self._unknown_alone(w, granules, threads, late[~crowded]),
            self._unknown_among_many(w, granules, threads, late[crowded]),
        ]
        return min((x for x in records if x is not None), default=None)

    def _unknown_alone(self, w: Group, granules: Value, threads: Value, late: Value) -> int | None:
        """The same where one thread accessed each; equal questions are asked once."""
        if not late.size:
            return None
        earlier = self.thread[granules[late]]
        time = self.stamp[granules[late]] >> _SITES
        item = self._askers(w, threads[late])
        question = (earlier * (int(time.max()) + 1) + time) * self.stride + item
        for i in np.sort(np.unique(question, return_index=True)[1]).tolist():
            if not w.clock.knows(int(item[i]), int(earlier[i]), int(time[i])):
                return int(late[i])
        return None

    def _askers(self, w: Group, threads: Value) -> Value:
        """For each thread a work-item that knows the same, the same for many."""
        items = threads % self.stride
        asker = np.zeros(self.stride, np.int64)
        first: dict[int, int] = {}
        for item in np.flatnonzero(np.bincount(items)).tolist():
            asker[item] = first.setdefault(id(w.clock.private.get(item)), item)
        values: Value = asker[items]
        return values

    def _unknown_among_many(
        self, w: Group, granules: Value, threads: Value, late: Value
    ) -> int | None:
        """The same where many did; the log names them."""
        if not late.size:
            return None
        group = self.thread[granules[late]] // self.stride
        item = self._askers(w, threads[late])
        doubtful = np.zeros(late.size, np.bool_)
        for asked, asker in set(zip(group.tolist(), item.tolist(), strict=True)):
            mine = (group == asked) & (item == asker)
            unknown = self._unknown_to(w, asker, asked)
            doubtful |= mine & np.isin(granules[late], unknown)
        for i in np.flatnonzero(doubtful).tolist():
            granule, thread = int(granules[late[i]]), int(threads[late[i]])
            if not self._all_known(w, granule, int(group[i]), int(item[i]), thread):
                return int(late[i])
        return None

    def _unknown_to(self, w: Group, item: int, workgroup: int) -> Value:
        """The granules that threads of a workgroup accessed, which a work-item does not know of."""
        granules, threads, times = self._since(w, workgroup)
        known = w.clock.times_known(item, workgroup)
        unknown: Value = granules[known[threads - workgroup * self.stride] < times]
        return unknown

    def _since(self, w: Group, workgroup: int) -> Value:
        """The accesses of a workgroup after what is commonly known: granules, threads, times."""
        assert self._log is not None
        log = self._log.setdefault(workgroup, _Log())
        return log.since(int(w.clock.common.floors[workgroup]))

    def _all_known(self, w: Group, granule: int, workgroup: int, item: int, thread: int) -> bool:
        """Whether each of the many accesses of a workgroup is ordered."""
        granules, threads, times = self._since(w, workgroup)
        here = granules == granule
        others, known = threads[here], w.clock.times_known(item, workgroup)
        late = times[here] > known[others - workgroup * self.stride]
        return not (late & (others != thread)).any()

    def _spilled_collision(
        self, w: Group, granules: Value, threads: Value, foreign: bool
    ) -> Collision | None:
        if not self.spilled:
            return None
        for i, granule in enumerate(granules.tolist()):
            thread = int(threads[i])
            for earlier, (time, site) in self.spilled.get(granule, {}).items():
                workgroup = earlier // self.stride
                own = earlier == thread or (foreign and workgroup == w.number)
                if own or time <= w.clock.common.floors[workgroup]:
                    continue
                if w.clock.plain or not w.clock.knows(thread % self.stride, earlier, time):
                    return Collision(i, self.kind, earlier, site)
        return None

    def _other(self, granule: int, thread: int) -> int:
        other = int(self.thread[granule])
        if other % self.stride == self.many and self.pair is not None:
            first, second = self.pair[granule].tolist()
            other = first if first != thread else second
        return other

    # -- telling ------------------------------------------------------------------------------

    def replace(self, w: Group, granules: Value, threads: Value, site: int) -> None:
        """These accesses stand for all earlier ones."""
        self.thread[granules] = threads
        self.stamp[granules] = (w.clock.time << _SITES) + site
        self._latest[w.number] = w.clock.time

    def clear(self, granules: Value) -> None:
        """Forget; what follows is ordered after a write that is."""
        self.stamp[granules] = 0
        if self.spilled:
            for granule in granules.tolist():
                self.spilled.pop(granule, None)

    def add(self, w: Group, granules: Value, threads: Value, site: int, together: bool) -> None:
        """These accesses join those that they are not ordered after."""
        if self._log is not None:
            self._log.setdefault(w.number, _Log()).add(granules, threads, w.clock.time)
        before = None if self._all_before(w) else self._before(w, granules, threads, together)
        if before is None or np.count_nonzero(before) == before.size:
            self._put(w, granules, threads, site)
            return
        self._put(w, granules[before], threads[before], site)
        late, who = granules[~before], threads[~before]
        is_own = self.thread[late] // self.stride == w.number
        self._mark_shared(w, late[is_own], self.thread[late[is_own]], who[is_own])
        shared = late[is_own]
        self.stamp[shared] = (w.clock.time << _SITES) + _site(self.stamp[shared])
        if not is_own.all():
            self._spill(w, late[~is_own], who[~is_own], site)

    def _put(self, w: Group, granules: Value, threads: Value, site: int) -> None:
        self.replace(w, granules, threads, site)
        if granules.size == 1:
            return
        lost = self.thread[granules] != threads
        if np.count_nonzero(lost):
            self._mark_shared(w, granules[lost], self.thread[granules[lost]], threads[lost])

    def _mark_shared(self, w: Group, granules: Value, first: Value, second: Value) -> None:
        """Mark granules as accessed by many, two of whom are given."""
        if self.pair is None:
            self.pair = np.zeros((self.thread.size, 2), np.int32)
        new = first % self.stride != self.many
        self.pair[granules[new], 0] = first[new]
        self.pair[granules[new], 1] = second[new]
        self.thread[granules] = w.number * self.stride + self.many

    def _spill(self, w: Group, granules: Value, threads: Value, site: int) -> None:
        for granule, thread in zip(granules.tolist(), threads.tolist(), strict=True):
            self.spilled.setdefault(granule, {})[thread] = (w.clock.time, site)


def _site(stamp: Any) -> Any:
    """The site of a stamp, or those of several."""
    return stamp & (1 << _SITES) - 1


class RaceCells:
    """What is known of the accesses to one piece of contiguous memory."""

    __slots__ = ("_granules", "_kinds", "_ordered", "_stride")

    def latest_writes(self, granules: Value) -> tuple[Value, Value, Value] | None:
        """By whom, at what times and sites each was last written (time 0: never)."""
        cells = self._kinds.get("write")
        if cells is None:
            return None
        stamps = cells.stamp[granules]
        return cells.thread[granules], stamps >> _SITES, _site(stamps)

    def __init__(self, granules: int, stride: int, ordered: bool) -> None:
        self._granules = granules
        self._stride = stride
        self._ordered = ordered
        self._kinds: dict[str, _Records] = {}

    def collision(self, w: Group, access: Touch, kind: str) -> Collision | None:
        """The first earlier access that a new one of this kind races with, if any."""
        granules, threads = access.granules, access.threads(w)
        for other in _CONFLICTS[kind]:
            records = self._kinds.get(other)
            if records is not None:
                foreign = "atomic" in kind and "atomic" in other
                hit = records.collision(w, granules, threads, access.together, foreign)
                if hit is not None:
                    return hit
        return None

    def record(self, w: Group, access: Touch, kind: str) -> Collision | None:
        """Remember an access; two plain writes of one statement to one place collide."""
        granules, threads = access.granules, access.threads(w)
        records = self._kinds.get(kind)
        if records is None:
            records = _Records(kind, self._granules, self._stride, self._ordered)
            self._kinds[kind] = records
        if kind != "write":
            records.add(w, granules, threads, access.site.number, access.together)
            return None
        return self._record_write(w, records, granules, threads, access.site.number)

    def _record_write(
        self, w: Group, records: _Records, granules: Value, threads: Value, site: int
    ) -> Collision | None:
        records.replace(w, granules, threads, site)
        for kind, others in self._kinds.items():
            if kind != "write":
                others.clear(granules)
        lost = records.thread[granules] != threads
        if not np.count_nonzero(lost):
            return None
        position = int(np.flatnonzero(lost)[0])
        return Collision(position, "write", int(records.thread[granules[position]]), site)


_CONFLICTS = {
    "read": ("write", "atomic write", "workgroup atomic write"),
    "write": (
        "write", "read", "atomic read", "atomic write", "workgroup atomic read",
        "workgroup atomic write",
    ),
    "atomic read": ("write", "workgroup atomic write"),
    "atomic write": ("write", "read", "workgroup atomic read", "workgroup atomic write"),
    "workgroup atomic read": ("write", "atomic write", "workgroup atomic write"),
    "workgroup atomic write": (
        "write", "read", "atomic read", "atomic write", "workgroup atomic read",
        "workgroup atomic write",
    ),
}  # fmt: skip
"""For each kind of access the kinds of earlier ones that it must be ordered after; atomics after
atomics only where they are of other workgroups."""
