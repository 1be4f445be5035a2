"""Asynchronous copies under way: they happen as late as they may, when they are waited for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from portable.lang.ir.types import Array
from portable.sim.memory import Access
from portable.sim.values import Value

if TYPE_CHECKING:
    from portable.sim.workgroup import Workgroup

__all__ = ["Copies", "Transfer"]


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
    """

    source: Access
    target: Access
    items: Value
    groups: Value

    def begin(self, w: Workgroup) -> None:
        """Check both ends, and mark them as in use."""
        for access, kind in ((self.source, "read"), (self.target, "write")):
            shadow = access.buffer.shadow
            if shadow is None:
                continue
            shadow.check(w, access, kind)  # type: ignore[arg-type]
            if shadow.flights is not None:
                shadow.flights.begin(access, kind == "write")

    def end(self, w: Workgroup) -> None:
        """Move the data."""
        for access, kind in ((self.source, "read"), (self.target, "write")):
            shadow = access.buffer.shadow
            if shadow is None:
                continue
            if shadow.flights is not None:
                shadow.flights.end(access, kind == "write")
            shadow.record(w, access, kind)  # type: ignore[arg-type]
        found = self.source.complete(self.source.buffer.data[self.source.offsets])
        self.target.buffer.data[self.target.offsets] = self.target.inside(found)
        w.changed(self.target.buffer)


class Copies:
    """The copies of one workgroup that nothing has waited for yet.

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

    def add(self, w: Workgroup, source: Access, target: Access, items: Value) -> None:
        """Start a copy in the open groups of these work-items."""
        transfer = Transfer(source, target, items, self._closed[items])
        transfer.begin(w)
        self.pending.append(transfer)

    def commit(self, items: Value) -> None:
        """Close the open groups of these work-items."""
        self._closed[items] += 1

    def wait(self, w: Workgroup, items: Value, pending: int) -> None:
        """These work-items wait for all but so many of their closed groups."""
        finished = self._closed[items] - pending
        self._finished[items] = np.maximum(self._finished[items], finished)
        done = [t for t in self.pending if (t.groups < self._finished[t.items]).all()]
        self.pending = [t for t in self.pending if t not in done]
        for transfer in done:
            transfer.end(w)
