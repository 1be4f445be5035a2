"""Mbarriers: barriers in local memory that count arrivals and the bytes of copies.

A phase of an mbarrier is over when all arrivals that it was made for have come, and all bytes that
were announced. Whoever waits for a phase knows afterwards what those knew who arrived, and that the
copies are done. (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from portable.lang.ir import statements as s
from portable.sim import report
from portable.sim.clocks import Clock, joined
from portable.sim.copies import Transfer
from portable.sim.instructions import instruction
from portable.sim.memory import Access, Site, locate
from portable.sim.steps import Builder, Pause, Pauses, Plain, Running, Step
from portable.sim.values import Value

if TYPE_CHECKING:
    from portable.lang.ir.types import Array
    from portable.sim.shadow import AccessKind
    from portable.sim.workgroup import Workgroup

__all__ = ["MBarrier", "Place"]


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
        The same of proxy fences (`proxies`).
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

    def arrive(self, w: Workgroup, site: Site, items: Value) -> None:
        """These work-items arrive, and publish what they know."""
        self.coming = joined(self.coming, w.clock.release(items))
        fenced = w.proxies.release(items)
        old = self.coming_fenced
        self.coming_fenced = fenced if old is None else np.maximum(old, fenced)
        w.clock.tick()
        self.arrived(w, site, items.size)

    def arrived(self, w: Workgroup, site: Site, count: int) -> None:
        """So many arrivals have come."""
        self.missing -= count
        if self.missing < 0 and w.settings.copies:
            raise report.too_many_arrivals(w, site, self.count)
        self._settle(w, site)

    def announce(self, w: Workgroup, site: Site, items: Value, size: int) -> None:
        """These work-items say how many bytes will come, and do not arrive."""
        self.bytes += size
        first = w.number * w.clock.stride
        self.announced += [(first + item, w.clock.time, site.number) for item in items.tolist()]

    def follow(self, w: Workgroup, site: Site, transfers: list[Transfer], arrivals: int) -> None:
        """So many arrivals come when these copies have landed."""
        self.coming_copies += transfers
        left = [sum(not t.landed for t in transfers)]

        def landed(w: Workgroup) -> None:
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

        def landed(w: Workgroup) -> None:
            self.bytes -= transfer.size
            self._settle(w, transfer.target.site)

        transfer.watchers.append(landed)

    def _settle(self, w: Workgroup, site: Site) -> None:
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

    def _check_announced(self, w: Workgroup, site: Site) -> None:
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

    def observe(self, w: Workgroup, items: Value) -> None:
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

    def _end(self, w: Workgroup, transfer: Transfer) -> None:
        """The copy is done for all who wait for the phase, and for them alone."""
        thread = w.launch.threads.slot(self.number, transfer.proxy)
        transfer.end(w, thread)
        known = self.published or w.clock.common.copy()
        known.later[w.number * w.clock.stride + thread] = w.clock.time
        self.published = known
        self.coming = joined(self.coming, known)


class Place:
    """The mbarrier that an instruction names."""

    def __init__(
        self,
        array: Array,
        index: tuple[object, ...],
        statement: s.Instruction,
        b: Builder,
    ) -> None:
        self.site: Site = b.site(statement.loc, array)
        self._index = b.expressions(index, self.site)

    def access(self, w: Workgroup, items: Value) -> Access:
        """The elements that work-items name."""
        return locate(w, self.site, tuple(i(w)[items] for i in self._index), items)

    def each(
        self, w: Workgroup, items: Value, kind: AccessKind
    ) -> Iterator[tuple[MBarrier, Value]]:
        """Every mbarrier that some of these work-items name, and who they are."""
        access = self.access(w, items)
        if access.buffer.shadow is not None:
            access.buffer.shadow.access(w, access, kind)
        for element in np.unique(access.offsets).tolist():
            yield self._found(w, element), access.items[access.offsets == element]

    def _found(self, w: Workgroup, element: int) -> MBarrier:
        assert self.site.array is not None
        key = self.site.array, element
        found = w.mbarriers.get(key)
        if found is None:
            number = w.launch.survey.mbarriers[key]
            found = w.mbarriers[key] = MBarrier(number, 1, 1)
        return found


def _place(statement: s.Instruction, b: Builder) -> Place:
    ((array, index),) = statement.addresses
    return Place(array, index, statement, b)


@instruction("mbarrier.init")
def _(statement: s.Instruction, b: Builder) -> Step:
    place = _place(statement, b)
    count = b.expressions(statement.inputs, place.site)

    def run(w: Workgroup) -> None:
        for mbarrier, items in place.each(w, w.active.ids, "write"):
            mbarrier.count = int(count[0](w)[items[0]]) if count else 1
            mbarrier.missing = mbarrier.count

    return Plain(run)


@instruction("mbarrier.init_fence")
def _(statement: s.Instruction, b: Builder) -> Step:
    return Plain(lambda w: w.proxies.fence(w))


_Action = Callable[["Workgroup", Site, MBarrier, Value, int], None]


def _acting(action: _Action) -> Callable[[s.Instruction, Builder], Step]:
    """The step of what work-items do to the mbarriers that they name, given an input if any."""

    def made(statement: s.Instruction, b: Builder) -> Step:
        place = _place(statement, b)
        inputs = b.expressions(statement.inputs, place.site)

        def run(w: Workgroup) -> Running:
            if w.strands is not None:
                yield Pause(place.site, False, _always)
            given = inputs[0](w) if inputs else np.zeros(w.size, np.int64)
            for mbarrier, items in place.each(w, w.active.ids, "atomic update"):
                action(w, place.site, mbarrier, items, int(given[items].sum()))

        return Pauses(run)

    return made


def _always() -> bool:
    return True


def _expect(w: Workgroup, site: Site, mbarrier: MBarrier, items: Value, size: int) -> None:
    mbarrier.announce(w, site, items, size)


def _arrive(w: Workgroup, site: Site, mbarrier: MBarrier, items: Value, size: int) -> None:
    mbarrier.bytes += size
    mbarrier.arrive(w, site, items)


def _arrive_copied(w: Workgroup, site: Site, mbarrier: MBarrier, items: Value, size: int) -> None:
    mbarrier.follow(w, site, w.copies.started_by(items), items.size)


instruction("mbarrier.expect_tx")(_acting(_expect))
instruction("mbarrier.arrive", "mbarrier.arrive.expecting")(_acting(_arrive))
instruction("mbarrier.arrive.copied")(_acting(_arrive_copied))


@instruction("mbarrier.wait")
def _(statement: s.Instruction, b: Builder) -> Step:
    place = _place(statement, b)
    (parity,) = b.expressions(statement.inputs, place.site)

    def run(w: Workgroup) -> Running:
        wanted = parity(w)
        for mbarrier, items in place.each(w, w.active.ids, "atomic read"):
            which = int(wanted[items[0]])
            if (wanted[items] != which).any() and w.settings.uniform:
                mine = wanted[items]
                what = "the phase that an mbarrier is waited for"
                raise report.not_uniform(w, place.site, what, mine, np.full_like(mine, which))
            yield from _until(w, place.site, lambda m=mbarrier, p=which: m.passed(p))  # type: ignore[misc]
            mbarrier.observe(w, items)

    return Pauses(run)


def _until(w: Workgroup, site: Site, passed: Callable[[], bool]) -> Running:
    """Wait; where no other strand could help, copies alone can."""
    if w.strands is not None:
        yield Pause(site, False, passed)
    while w.strands is None and not passed():
        if w.engine.advance(w):
            continue
        if w.settings.waits:
            raise report.endless_wait(w, site, report.NOBODY_COMES)
        return
