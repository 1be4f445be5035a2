"""Streams of SYCL devices: chains of events in the one queue that dpnp's arrays belong to.

That queue begins what is enqueued as soon as the events that it waits for are complete. dpctl keeps
the latest events of a queue in an order manager, which dpnp's functions and our launches ask for
what comes before them, and looks order managers up in a context variable. So a stream is an order
manager of its own: with a second queue, dpnp would refuse arrays of both in one call.
"""

from __future__ import annotations

from collections import ChainMap, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from portable.backend.queues import Mark, Queue

if TYPE_CHECKING:
    from portable_backends.sycl.backend import SYCLDevice

# What launches through SYCL use, kept alive until they are done.
#
# dpctl keeps arguments by a task on the host that waits for the kernel, in a thread that then waits
# for Python's lock: five times what the launch itself takes. Here they are let go of as later calls
# come by and find the kernel done.


class InFlight:
    """The arguments of launches that may not be done, the earliest first.

    Not safe under threads by itself: its owner calls it under a lock.
    """

    def __init__(self) -> None:
        from dpctl import event_status_type

        self._launches: deque[tuple[Any, Any]] = deque()
        self._done = event_status_type.complete

    def __len__(self) -> int:
        return len(self._launches)

    def add(self, event: Any, arguments: Any) -> None:
        """Keep what a launch uses, and let go of what finished ones used."""
        self.release()
        self._launches.append((event, arguments))

    def release(self) -> None:
        """Let go of what finished launches used, up to the first that is not done."""
        launches, done = self._launches, self._done
        while launches and launches[0][0].execution_status == done:
            launches.popleft()


# -- streams ---------------------------------------------------------------------------------------

_MANY: Final = 8
"""Events that a launch may wait for; each takes it a fifth of a microsecond, or more."""


def follow(order: Any, event: Any) -> None:
    """Has what comes next in an order manager wait for an event that all others come before.

    The manager keeps all events that are not complete, so that each of many launches would wait
    for all the earlier ones. When there are many, the new event takes their place.
    """
    state = getattr(order, "_state", None)
    if state is None:
        order.add_event_pair(event, event)
        return
    if order.num_submitted_events >= _MANY:
        tasks, state = order.host_task_events, type(state)(_MANY)
        for task in tasks:
            state.add_to_host_task_events(task)
        order._state = state
    state.add_to_submitted_events(event)


def orders_of() -> Any:
    """Dpctl's context variable of order managers by queue; None if this version has another way."""
    from dpctl.utils import SequentialOrderManager

    return getattr(SequentialOrderManager, "_map", None)


class SYCLMark(Mark):
    """A barrier in a queue beside dpnp's, which waits for work and holds up what comes next.

    Parameters
    ----------
    event : dpctl.SyclEvent
        The barrier.
    """

    def __init__(self, event: Any) -> None:
        self.event = event

    @property
    def reached(self) -> bool:
        """Whether the barrier is complete."""
        import dpctl

        return bool(self.event.execution_status == dpctl.event_status_type.complete)

    def wait(self) -> None:
        """Wait for the barrier."""
        self.event.wait()

    def seconds_after(self, earlier: Any) -> float:
        """By the device's clock."""
        earlier.wait()
        self.wait()
        first, last = earlier.event.profiling_info_end, self.event.profiling_info_end
        return 1e-9 * float(last - first)


class Timekeeper:
    """Makes marks for one order manager, in a queue that records times, as dpnp's does not.

    That of another would wait for its marks.

    Parameters
    ----------
    device : SYCLDevice
        Where.
    """

    def __init__(self, device: SYCLDevice) -> None:
        self._gate = device.gate
        self._beside = device.sycl_queue
        self._queue: Any = None

    def mark(self, order: Any) -> SYCLMark:
        """A mark after what an order manager has to do."""
        import dpctl

        with self._gate.lock:
            if self._queue is None:
                where = self._beside.sycl_context, self._beside.sycl_device
                self._queue = dpctl.SyclQueue(*where, property="enable_profiling")
            event = self._queue.submit_barrier(order.submitted_events)
            order.add_event_pair(event, event)
        return SYCLMark(event)


class SYCLStream(Queue):
    """An order manager for what is enqueued in a context.

    Parameters
    ----------
    device : SYCLDevice
        Where.

    Attributes
    ----------
    handle : dpctl.SyclQueue
        The queue of all streams of the device.
    """

    def __init__(self, device: SYCLDevice) -> None:
        from dpctl.utils import SequentialOrderManager

        self.handle = device.sycl_queue
        self._device = device
        self._order = type(SequentialOrderManager[self.handle])()
        self._timekeeper = Timekeeper(device)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Dpnp's functions, too, come after what this stream has to do."""
        orders = orders_of()
        token = orders.set(ChainMap({self.handle: self._order}, orders.get()))
        chosen = self._device.stream.set(self)
        try:
            yield
        finally:
            self._device.stream.reset(chosen)
            orders.reset(token)

    def mark(self) -> Mark:
        """A barrier at its end."""
        return self._timekeeper.mark(self._order)

    def wait_for(self, mark: Mark) -> None:
        """What is enqueued from now on waits for a barrier, too."""
        assert isinstance(mark, SYCLMark)
        with self._device.gate.lock:
            self._order.add_event_pair(mark.event, mark.event)

    def synchronize(self) -> None:
        """Wait for all that was enqueued in it."""
        with self._device.gate.lock:
            self._order.wait()
