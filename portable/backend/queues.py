"""Queues of a device's work and marks in them: the base of streams, events and timelines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from typing import Any


class Mark(ABC):
    """A point in a queue, reached once all that was enqueued before it is done."""

    @property
    @abstractmethod
    def reached(self) -> bool:
        """Must: whether it has been reached, without waiting."""

    @abstractmethod
    def wait(self) -> None:
        """Must: wait until it is reached."""

    @abstractmethod
    def seconds_after(self, earlier: Any) -> float:
        """Must: wait for both marks, of one device, and give the device's time between them."""


class HostMark(Mark):
    """A mark that was reached when it was made, by the host's clock."""

    def __init__(self) -> None:
        self._at = perf_counter()

    @property
    def reached(self) -> bool:
        """Always."""
        return True

    def wait(self) -> None:
        """Nothing to wait for."""

    def seconds_after(self, earlier: Any) -> float:
        """Seconds of the host's clock."""
        return self._at - float(earlier._at)


class Queue(ABC):
    """Work that a device does in order, beside that of its other queues.

    Attributes
    ----------
    handle : object
        What the device's library calls a stream or queue; None where it has none of its own.
    """

    handle: Any

    @abstractmethod
    def scope(self) -> AbstractContextManager[Any]:
        """Must: a context in which this thread's launches, copies and arrays go to this queue."""

    @abstractmethod
    def mark(self) -> Mark:
        """Must: a mark at its end."""

    @abstractmethod
    def wait_for(self, mark: Mark) -> None:
        """Must: let what is enqueued from now on begin after a mark of the same device."""

    @abstractmethod
    def synchronize(self) -> None:
        """Must: wait for all that was enqueued in it."""


class OnlyQueue(Queue):
    """The one queue of a device that has no others: all its work is in order anyway.

    Parameters
    ----------
    mark : callable
        Makes a mark at the queue's end.
    synchronize : callable
        Waits for the device.
    """

    handle = None

    def __init__(self, mark: Callable[[], Mark], synchronize: Callable[[], None]) -> None:
        self._mark = mark
        self._synchronize = synchronize

    def scope(self) -> AbstractContextManager[Any]:
        """There is nowhere else to go to."""
        return nullcontext()

    def mark(self) -> Mark:
        """A mark of the device."""
        return self._mark()

    def wait_for(self, mark: Mark) -> None:
        """Already so."""

    def synchronize(self) -> None:
        """Wait for the device."""
        self._synchronize()
