"""OpenCL's command queues beside a runtime's own one, marks in them, and a timer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

import pyopencl as cl

from portable.backend.program import Mark, Queue, Timer
from portable.errors import UnsupportedError

if TYPE_CHECKING:
    from portable_backends.opencl.runtime import Runtime

_NANO = 1e-9
_numbers = count()


class OpenCLMark(Mark):
    """A marker in a queue, timed by one in a queue that records times where its own does not."""

    def __init__(self, runtime: Runtime, queue: cl.CommandQueue) -> None:
        self._runtime = runtime
        with runtime.gate.lock:
            self.event: cl.Event = cl.enqueue_marker(queue)
            self._timed = self.event
            if not runtime.records_times:
                queue.flush()
                timekeeper = runtime.timekeeper()
                # NVIDIA's driver gives no time for a marker that itself waits for an event.
                cl.enqueue_barrier(timekeeper, wait_for=[self.event])
                self._timed = cl.enqueue_marker(timekeeper)
                timekeeper.flush()

    @property
    def reached(self) -> bool:
        """Whether the marker is complete."""
        return bool(self.event.command_execution_status == cl.command_execution_status.COMPLETE)

    def wait(self) -> None:
        """Wait for the marker."""
        self._runtime.wait(self.event)

    def seconds_after(self, earlier: Any) -> float:
        """By the device's clock."""
        for mark in (earlier, self):
            self._runtime.wait(mark._timed)
        return _NANO * float(self._timed.profile.end - earlier._timed.profile.end)


class OpenCLQueue(Queue):
    """A further in-order queue of a runtime.

    Parameters
    ----------
    runtime : Runtime
        Whose context it shares.

    Attributes
    ----------
    handle : pyopencl.CommandQueue
        The queue; another one while times are recorded.
    number : int
        Its own, for good.
    pool : pyopencl.tools.MemoryPool or None
        Where the arrays made in its scope have their memory from, so that what one of them gives up
        is not given to another queue which does not wait for this one.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.handle: cl.CommandQueue = runtime.new_queue()
        self.number: int = next(_numbers)
        self.pool: Any = None

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Launches and copies of this thread go here."""
        with self._runtime.chosen(self):
            yield

    def mark(self) -> Mark:
        """A marker at its end."""
        return OpenCLMark(self._runtime, self.handle)

    def wait_for(self, mark: Mark) -> None:
        """A barrier that waits for the mark's event."""
        assert isinstance(mark, OpenCLMark)
        with self._runtime.gate.lock:
            cl.enqueue_barrier(self.handle, wait_for=[mark.event])

    def synchronize(self) -> None:
        """Wait for the queue."""
        self._runtime.wait_for_all([self.handle])


class DeviceClock:
    """From a device's times to the host's, by the moment at which one command was enqueued."""

    def __init__(self) -> None:
        self._ahead: float | None = None

    def times_of(self, event: cl.Event, enqueued: float) -> Callable[[], tuple[float, float]]:
        """What tells the start and end of a command once it is done."""

        def times() -> tuple[float, float]:
            profile = event.profile
            if self._ahead is None:
                self._ahead = enqueued - _NANO * profile.queued
            return self._ahead + _NANO * profile.start, self._ahead + _NANO * profile.end

        return times


class EventTimer(Timer):
    """Times by markers in a queue that records when each was reached."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._first: cl.Event | None = None
        self._last: cl.Event | None = None

    def start(self) -> None:
        """Mark the beginning."""
        self._runtime.measure(True)
        self._first = cl.enqueue_marker(self._runtime.current())

    def stop(self) -> None:
        """Mark the end and return to the plain queue."""
        self._last = cl.enqueue_marker(self._runtime.current())
        self._runtime.measure(False)

    def seconds(self) -> float:
        """Seconds on the device between the two marks."""
        if self._first is None or self._last is None:
            raise UnsupportedError("call start() and stop() before seconds()")
        self._last.wait()
        return _NANO * float(self._last.profile.end - self._first.profile.end)
