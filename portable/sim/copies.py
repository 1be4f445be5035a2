"""Asynchronous copies: what is under way, and which groups of copies work-items have closed.

Two things happen to a copy. It *lands* when its data move, at any time between its start and a wait
for it, as `Settings.completion` says. It *ends* for those who wait for it: until then each access
to its memory that it could disturb is reported, whether it has landed or not.

The asynchronous proxy sees memory in its own way. Bulk copies and the multiplications of warpgroups
reach memory by a way of their own. What work-items wrote, or have waited for, they see only if a
proxy fence stands between: after the write, and before what they do, in the order that barriers and
mbarriers make. One kind of fence is for local memory, the other for all. (PTX ISA, "Proxies".)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from portable.lang.ir.types import Array
from portable.sim import report
from portable.sim.clocks import Clock, joined
from portable.sim.launch import Group, Site
from portable.sim.memory import Access, MemoryGroup
from portable.sim.values import Value

# Mbarriers: barriers in local memory that count arrivals and the bytes of copies.
#
# A phase of an mbarrier is over when all arrivals that it was made for have come, and all bytes
# that were announced. Whoever waits for a phase knows afterwards what those knew who arrived, and
# that the copies are done. (PTX ISA, "Parallel Synchronization and Communication Instructions:
# mbarrier".)


@dataclass(slots=True)
class MBarrier:
    """The state of one mbarrier.

    Attributes
    ----------
    number : int
        Of the kernel's mbarriers.
    count : int
        Arrivals of a phase.
    missing, bytes : int
        Arrivals and bytes that the present phase still waits for.
    phase : int
        How many phases are over.
    coming, published : Clock
        What those know who arrived so far, and what those learn who wait for a phase that is over.
    coming_fenced, published_fenced : numpy.ndarray
        The same of proxy fences (`Proxies`).
    announced : list of (int, int, int)
        Threads that announced bytes of the present phase without arriving, with times and sites.
    coming_copies, done_copies : list of Transfer
        The copies that it counts, and those of phases that are over for which nobody has waited.
    """

    number: int
    count: int
    missing: int
    bytes: int = 0
    phase: int = 0
    coming: Clock | None = None
    published: Clock | None = None
    coming_fenced: Value | None = None
    published_fenced: Value | None = None
    announced: list[tuple[int, int, int]] = field(default_factory=list)
    coming_copies: list[Transfer] = field(default_factory=list)
    done_copies: list[Transfer] = field(default_factory=list)

    def arrive(self, w: CopyGroup, site: Site, items: Value) -> None:
        """These work-items arrive, and publish what they know."""
        self.coming = joined(self.coming, w.clock.release(items))
        fenced = w.proxies.release(items)
        old = self.coming_fenced
        self.coming_fenced = fenced if old is None else np.maximum(old, fenced)
        w.clock.tick()
        self.arrived(w, site, items.size)

    def arrived(self, w: CopyGroup, site: Site, count: int) -> None:
        """So many arrivals have come."""
        self.missing -= count
        if self.missing < 0 and w.settings.copies:
            raise report.too_many_arrivals(w, site, count=self.count)
        self._settle(w, site)

    def announce(self, w: CopyGroup, site: Site, items: Value, size: int) -> None:
        """These work-items say how many bytes will come, and do not arrive."""
        self.bytes += size
        first = w.number * w.clock.stride
        self.announced += [(first + item, w.clock.time, site.number) for item in items.tolist()]

    def follow(self, w: CopyGroup, site: Site, transfers: list[Transfer], arrivals: int) -> None:
        """So many arrivals come when these copies have landed."""
        self.coming_copies += transfers
        left = [sum(not t.landed for t in transfers)]

        def landed(w: CopyGroup) -> None:
            left[0] -= 1
            if not left[0]:
                self.arrived(w, site, arrivals)

        if not left[0]:
            self.arrived(w, site, arrivals)
        for transfer in transfers:
            if not transfer.landed:
                transfer.watchers.append(landed)

    def count_bytes(self, transfer: Transfer) -> None:
        """A copy starts that reports its bytes here."""
        self.coming_copies.append(transfer)

        def landed(w: CopyGroup) -> None:
            self.bytes -= transfer.size
            self._settle(w, transfer.target.site)

        transfer.watchers.append(landed)

    def _settle(self, w: CopyGroup, site: Site) -> None:
        if self.missing > 0 or self.bytes:
            return
        if w.settings.races:
            self._check_announced(w, site)
        self.phase += 1
        self.missing = self.count
        self.published, self.published_fenced = self.coming, self.coming_fenced
        self.done_copies += [t for t in self.coming_copies if t.landed]
        self.coming_copies = [t for t in self.coming_copies if not t.landed]
        w.changes += 1

    def _check_announced(self, w: CopyGroup, site: Site) -> None:
        """Some arrival must come after each announcement."""
        for thread, time, announced in self.announced:
            if self.coming is None or not self.coming.knows(thread, w.number, time):
                raise report.early_phase(w, site, announced, thread)
        self.announced = []

    @property
    def unfinished(self) -> list[Transfer]:
        """The copies that it counts and nobody has waited for."""
        return [*self.coming_copies, *self.done_copies]

    def passed(self, parity: int) -> bool:
        """Whether the phase of a parity is over, and the one after it not."""
        return self.phase % 2 != parity

    def observe(self, w: CopyGroup, items: Value) -> None:
        """These work-items have waited for the phase before the present one."""
        if self.done_copies:
            for transfer in self.done_copies:
                self._end(w, transfer)
            self.done_copies = []
            w.clock.tick()
        if self.published is not None:
            w.clock.acquire_together(items, self.published)
        if self.published_fenced is not None:
            w.proxies.acquire(items, self.published_fenced)

    def _end(self, w: CopyGroup, transfer: Transfer) -> None:
        """The copy is done for all who wait for the phase, and for them alone."""
        thread = w.launch.threads.slot(self.number, transfer.proxy)
        transfer.end(w, thread)
        known = self.published or w.clock.common.copy()
        known.tell(w.number, thread, w.clock.time, w.clock.stride)
        self.published = known
        self.coming = joined(self.coming, known)


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


_LUCK: Final = 0.4
_MANY: Final = 256


@dataclass(slots=True, eq=False)
class Transfer:
    """One copy; entry for entry what `source` asked for goes to `target`, or zero.

    Attributes
    ----------
    source, target : Access
        The components read and written.
    items : numpy.ndarray
        The work-items that take part and have to wait for it.
    groups : numpy.ndarray
        Per such work-item, the number of its group of copies that this belongs to.
    proxy : {"generic", "async"}
        How it accesses local memory: the asynchronous proxy sees what work-items wrote there only
        behind a fence.
    size : int
        Bytes, which an mbarrier counts.
    landed, ended : bool
        What has happened to it.
    watchers : list of callable
        What to do when it lands.
    """

    source: Access
    target: Access
    items: Value
    groups: Value
    proxy: str = "generic"
    size: int = 0
    landed: bool = False
    ended: bool = False
    watchers: list[Callable[[CopyGroup], None]] = field(default_factory=list)

    def begin(self, w: CopyGroup) -> None:
        """Check both ends, and mark them as in use."""
        for access, kind in ((self.source, "read"), (self.target, "write")):
            shadow = access.buffer.shadow
            if shadow is None:
                continue
            shadow.check(w, access, kind)  # type: ignore[arg-type]
            if self.proxy == "async":
                w.proxies.check(w, access, kind)
            if shadow.flights is not None:
                shadow.flights.begin(access, kind == "write")

    def land(self, w: CopyGroup) -> None:
        """Move the data."""
        if self.landed:
            return
        self.landed = True
        values = self.source.complete(self.source.buffer.data[self.source.offsets])
        self.target.buffer.data[self.target.offsets] = self.target.inside(values)
        w.changed(self.target.buffer)
        for watcher in self.watchers:
            watcher(w)

    def end(self, w: CopyGroup, thread: int | None = None) -> None:
        """It has been waited for; `thread` of the workgroup made its accesses, else its items."""
        if self.ended:
            return
        self.land(w)
        self.ended = True
        for access, kind in ((self.source, "read"), (self.target, "write")):
            shadow = access.buffer.shadow
            if shadow is None:
                continue
            if shadow.flights is not None:
                shadow.flights.end(access, kind == "write")
            if thread is not None:
                access.made_by(thread)
            shadow.record(w, access, kind)  # type: ignore[arg-type]


class CopyEngine:
    """What moves the data of a workgroup's copies.

    Attributes
    ----------
    flying : list of Transfer
        The copies that have not landed, oldest first; some that have may be among them.
    """

    __slots__ = ("flying",)

    def __init__(self) -> None:
        self.flying: list[Transfer] = []

    def start(self, w: CopyGroup, transfer: Transfer) -> None:
        """A copy starts; where the settings say so, it or an older one lands at once."""
        transfer.begin(w)
        match w.settings.completion:
            case "early":
                transfer.land(w)
            case "late":
                self.flying.append(transfer)
            case "random":
                self.flying.append(transfer)
                self.perhaps(w)
        if len(self.flying) > _MANY:
            self._forget()

    def _forget(self) -> None:
        """Those that have landed."""
        self.flying = [t for t in self.flying if not t.landed]

    def perhaps(self, w: CopyGroup) -> None:
        """Where copies land at random, let one do so now and then."""
        if w.settings.completion == "random" and w.launch.chance.random() < _LUCK:
            self.advance(w)

    def advance(self, w: CopyGroup) -> bool:
        """Let a copy land; whether there was one under way."""
        self._forget()
        if not self.flying:
            return False
        late = w.settings.completion == "late"
        at = len(self.flying) - 1 if late else w.launch.chance.randrange(len(self.flying))
        self.flying.pop(at).land(w)
        return True


class CopyGroup(MemoryGroup):
    """A workgroup with the engine of its asynchronous copies, and what their proxy sees."""

    @cached_property
    def engine(self) -> CopyEngine:
        """What moves the data of all copies."""
        return CopyEngine()

    @cached_property
    def proxies(self) -> Proxies:
        """What the asynchronous proxy sees."""
        return Proxies(self.size, self.launch.threads.stride)


class Copies:
    """The groups of copies of one workgroup that work-items close and wait for.

    Attributes
    ----------
    pending : list of Transfer
        Those that commit and wait order, oldest first.
    bulk : dict
        By completion array and slot, the bulk copies into it since it was last waited for.
    waits : dict
        By completion array and slot, how often it was waited for.
    """

    __slots__ = ("_closed", "_finished", "bulk", "pending", "waits")

    def __init__(self, size: int) -> None:
        self._closed: Value = np.zeros(size, np.int64)
        self._finished: Value = np.zeros(size, np.int64)
        self.pending: list[Transfer] = []
        self.bulk: dict[tuple[Array, int], list[Transfer]] = {}
        self.waits: dict[tuple[Array, int], int] = {}

    def add(
        self, w: CopyGroup, source: Access, target: Access, items: Value, proxy: str = "generic"
    ) -> None:
        """Start a copy in the open groups of these work-items."""
        transfer = Transfer(source, target, items, self._closed[items], proxy)
        w.engine.start(w, transfer)
        self.pending.append(transfer)

    def commit(self, items: Value) -> None:
        """Close the open groups of these work-items."""
        self._closed[items] += 1

    def wait(self, w: CopyGroup, items: Value, pending: int) -> None:
        """These work-items wait for all but so many of their closed groups."""
        finished = self._closed[items] - pending
        self._finished[items] = np.maximum(self._finished[items], finished)
        done = [t for t in self.pending if (t.groups < self._finished[t.items]).all()]
        self.pending = [t for t in self.pending if t not in done]
        for transfer in done:
            transfer.end(w)

    def started_by(self, items: Value) -> list[Transfer]:
        """The copies under way that some of these work-items take part in."""
        return [t for t in self.pending if not t.ended and np.isin(t.items, items).any()]
