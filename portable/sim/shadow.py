"""What the simulator knows about memory beside its contents: written or not, by whom, in flight."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from portable.sim import report
from portable.sim.clocks import Published
from portable.sim.in_flight import Flights
from portable.sim.launch import Group, Touch
from portable.sim.races import RaceCells
from portable.sim.values import Value

AccessKind = Literal[
    "read", "write", "atomic read", "atomic write", "atomic update",
    "workgroup atomic read", "workgroup atomic write", "workgroup atomic update",
]  # fmt: skip
"""An atomic update both reads and writes; an atomic write only writes. Those of a workgroup are
atomic beside accesses of the same workgroup only."""

_WRITES = {kind for kind in get_args(AccessKind) if kind.endswith(("write", "update"))}
_READS = {kind for kind in get_args(AccessKind) if kind.endswith(("read", "update"))}
_RACE_KINDS = {kind: kind.replace("update", "write") for kind in get_args(AccessKind)}


class Shadow:
    """The shadow of one contiguous piece of memory; each part is None where it is not checked.

    Attributes
    ----------
    written : numpy.ndarray of bool or None
        Per granule whether it holds something.
    races : RaceCells or None
        Earlier accesses.
    flights : Flights or None
        Asynchronous copies under way.
    published : dict of int to Published
        By granule, what an acquire of the atomic there learns.
    """

    __slots__ = ("_reads", "flights", "published", "races", "written")

    def __init__(
        self, written: Value | None, races: RaceCells | None, flights: Flights | None
    ) -> None:
        self.written = written
        self._reads = 0
        self.races = races
        self.flights = flights
        self.published: dict[int, Published] = {}

    @property
    def idle(self) -> bool:
        """Whether nothing is checked."""
        return self.written is None and self.races is None and self.flights is None

    def access(self, w: Group, access: Touch, kind: AccessKind) -> None:
        """Check an access and remember it."""
        self.check(w, access, kind)
        self.record(w, access, kind)

    def check(self, w: Group, access: Touch, kind: AccessKind) -> None:
        """Report what is wrong with an access, if anything."""
        if self.flights is not None and self.flights.count:
            self._check_flights(w, access, kind)
        if self.written is not None and kind in _READS:
            self._check_written(w, access, self.written)
        if self.races is not None:
            collision = self.races.collision(w, access, _RACE_KINDS[kind])
            if collision is not None:
                raise report.race(w, access, kind, collision)

    def _check_written(self, w: Group, access: Touch, written: Value) -> None:
        """Of memory that is all written nothing is asked any more; ever more rarely it is seen."""
        known = written[access.granules]
        if np.count_nonzero(known) < known.size:  # far cheaper than `all`
            raise report.uninitialised(w, access, np.flatnonzero(~known))
        self._reads += 1
        if self._reads & (self._reads - 1) == 0 and np.count_nonzero(written) == written.size:
            self.written = None

    def _check_flights(self, w: Group, access: Touch, kind: AccessKind) -> None:
        assert self.flights is not None
        flights = self.flights.touched(access.granules, kind in _WRITES)
        if flights is not None:
            raise report.in_flight(w, access, kind, *flights)

    def record(self, w: Group, access: Touch, kind: AccessKind) -> None:
        """Remember an access that is in order."""
        if self.written is not None and kind in _WRITES:
            self.written[access.granules] = True
        if self.races is not None:
            collision = self.races.record(w, access, _RACE_KINDS[kind])
            if collision is not None:
                raise report.race(w, access, kind, collision)
