"""Mbarriers: barriers in local memory that count arrivals and the bytes of copies.

A phase of an mbarrier is over when all arrivals that it was made for have come, and all bytes that
were announced. Whoever waits for a phase knows afterwards what those knew who arrived, and that the
copies are done. (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".)
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from portable.sim import report
from portable.sim.clocks import Clock, joined
from portable.sim.copies import CopyGroup, Transfer
from portable.sim.group import Site
from portable.sim.values import Value


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
            raise report.too_many_arrivals(w, site, self.count)
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
