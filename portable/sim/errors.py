"""The faults that the simulator reports, one class each, with what was involved."""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from typing import Literal, NamedTuple

from portable.errors import CheckError, Location, SimulationError


class WorkItemId(NamedTuple):
    """Which work-item: its global id, its local id and its workgroup, dimension 0 first.

    `held_by` tells from a single work-item what a scope does together, without saying which of
    its work-items does which part: ``"workgroup"``, ``"sub-group"`` or ``"warpgroup"``; ``"copy"``
    stands for copies that run on their own.
    """

    global_id: tuple[int, int, int]
    local_id: tuple[int, int, int]
    group_id: tuple[int, int, int]
    held_by: Literal["work-item", "workgroup", "sub-group", "warpgroup", "copy"] = "work-item"

    def __str__(self) -> str:
        if self.held_by == "copy":
            return f"an asynchronous copy of workgroup {self.group_id}"
        if self.held_by == "workgroup":
            return f"workgroup {self.group_id} together"
        if self.held_by in ("sub-group", "warpgroup"):
            return f"the {self.held_by} of work-item {self.global_id} together"
        return f"work-item {self.global_id} (local {self.local_id} of workgroup {self.group_id})"


@dataclass(frozen=True, slots=True)
class OtherAccess:
    """The earlier access that a later one collides with."""

    kind: str
    location: Location
    work_item: WorkItemId

    def __str__(self) -> str:
        return f"{self.kind} by {self.work_item} at {self.location}{_quoted(self.location)}"


class FaultError(SimulationError):
    """A fault of a kernel, with where, who and what.

    Parameters
    ----------
    reason : str
        What is wrong.
    location : Location
        Where in the user's source.
    kernel : str
        The kernel's name.
    work_items : tuple of WorkItemId
        Who; the first of them is named in the message, and `work_item` is its global id.
    array : str or None
        The array concerned.
    index : tuple of int or None
        The element concerned, as the first work-item indexed it.
    other : OtherAccess or None
        The access that this one collides with.
    hint : str
        What to do.
    """

    def __init__(
        self,
        reason: str,
        *,
        location: Location,
        kernel: str,
        work_items: tuple[WorkItemId, ...] = (),
        array: str | None = None,
        index: tuple[int, ...] | None = None,
        other: OtherAccess | None = None,
        hint: str = "",
    ) -> None:
        self.reason = reason
        self.location = location
        self.kernel = kernel
        self.work_items = work_items
        self.work_item: tuple[int, ...] | None = work_items[0].global_id if work_items else None
        self.array = array
        self.index = index
        self.other = other
        self.hint = hint
        super().__init__(self._message())

    def _message(self) -> str:
        text = f"{self.location}: in kernel {self.kernel!r}: {self.reason}{self._who()}"
        text += _quoted(self.location)
        if self.other is not None:
            text += f"\n  the other access: {self.other}"
        if self.hint:
            text += f"\n  {self.hint}"
        if self.location.called is not None:
            text += f"\n{self.location.calls}"
        return text

    def _who(self) -> str:
        if not self.work_items:
            return ""
        more = len(self.work_items) - 1
        tail = f" and {more} more" if more else ""
        return f", by {self.work_items[0]}{tail}"


def _quoted(location: Location) -> str:
    line = linecache.getline(location.file, location.line).strip()
    return f"\n    {line}" if line else ""


class OutOfBoundsError(FaultError, CheckError):
    """An index outside its array."""


class FailedCheckError(FaultError, CheckError):
    """A condition of `kl.check` that does not hold."""


class UninitialisedReadError(FaultError):
    """A read of memory that nothing has written."""


class RaceError(FaultError):
    """Two accesses that nothing orders, at least one of them a plain write or beside an atomic."""


class DivergenceError(FaultError):
    """A collective operation that not all of its work-items reach together."""


class NotUniformError(FaultError):
    """A value that was said to be uniform and differs between work-items."""


class BrokenPromiseError(FaultError):
    """An operand that the IR promises not to be negative, or to be zeros, and is not."""


class AsyncCopyError(FaultError):
    """An access to memory that an asynchronous copy is still reading or writing."""


class EndlessWaitError(FaultError):
    """A wait that no running workgroup can end."""
