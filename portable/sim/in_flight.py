"""Memory that copies and multiplications under way read or write."""

from __future__ import annotations

from typing import Final

import numpy as np

from portable.sim.launch import Touch
from portable.sim.values import Value

COPY: Final = "asynchronous copy"
PRODUCT: Final = "asynchronous multiplication"


class Flights:
    """Per granule, how much of what is under way is to write it and to read it.

    Attributes
    ----------
    count : int
        Accesses under way.
    """

    __slots__ = ("_access", "_reads", "_writes", "count")

    def __init__(self, granules: int) -> None:
        self.count = 0
        self._reads: Value = np.zeros(granules, np.int32)
        self._writes: Value = np.zeros(granules, np.int32)
        self._access: dict[int, tuple[Touch, str]] = {}

    def begin(self, access: Touch, writes: bool, what: str = COPY) -> None:
        """Something that reads or writes these granules starts."""
        self._access[id(access)] = access, what
        np.add.at(self._writes if writes else self._reads, access.granules, 1)
        self.count += 1

    def end(self, access: Touch, writes: bool) -> None:
        """It is done."""
        del self._access[id(access)]
        np.subtract.at(self._writes if writes else self._reads, access.granules, 1)
        self.count -= 1

    def touched(self, granules: Value, writes: bool) -> tuple[int, Touch, str] | None:
        """The first of these granules that must not be accessed yet, whose it is, and what is."""
        busy = self._writes[granules]
        if writes:
            busy = busy + self._reads[granules]
        hit = np.flatnonzero(busy)
        if not hit.size:
            return None
        granule = granules[hit[0]]
        flights = [x for x in self._access.values() if (x[0].granules == granule).any()]
        return int(hit[0]), *flights[-1]
