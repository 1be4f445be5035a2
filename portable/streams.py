"""Streams, events and timers: the order of a device's work, and how long it took."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Any, Self

from portable import registry
from portable.backend import Device
from portable.backend.queues import Mark
from portable.errors import DeviceMismatchError, LaunchError
from portable.profiling import reports


class _Entered(threading.local):
    """The scopes that a thread is in."""

    def __init__(self) -> None:
        self.scopes: list[AbstractContextManager[Any]] = []


class Stream:
    """Work of one device that is done in order, beside that of its other streams.

    ``with stream:`` sends this thread's launches, operations, copies and new arrays on the stream's
    device to it; outside, they go to the device's first stream (on CUDA and ROCm to CuPy's current
    one). Streams wait for each other where they are told to (`wait`) and nowhere else. What one
    stream made, another may use once it has waited; do not let go of such an array before
    the other is done with it, since its memory goes to the next array of the stream that made it.

    Where `Capabilities.streams` is False all streams of a device are one: programs are right, and
    nothing runs side by side.

    Parameters
    ----------
    device : str, Device or None
        Where; None means the device in use.

    Attributes
    ----------
    device : Device
        Where.

    Examples
    --------
    >>> stream = pt.Stream()  # doctest: +SKIP
    >>> with stream:  # doctest: +SKIP
    ...     kernel[n](x)
    >>> stream.synchronize()  # doctest: +SKIP
    """

    def __init__(self, device: str | Device | None = None) -> None:
        self.device = registry.device(device)
        self._queue = self.device.queue()
        self._entered = _Entered()

    def __repr__(self) -> str:
        return f"<portable stream of {self.device.name}>"

    @property
    def handle(self) -> Any:
        """What the device's library has for it: a ``cupy.cuda.Stream``, ``pyopencl.CommandQueue``.

        None where the device has one queue alone.
        """
        return self._queue.handle

    def __enter__(self) -> Self:
        registry.given_work(self.device)
        scope = self._queue.scope()
        scope.__enter__()
        self._entered.scopes.append(scope)
        return self

    def __exit__(self, *_: object) -> None:
        self._entered.scopes.pop().__exit__(None, None, None)

    def record(self) -> Event:
        """An event at the stream's end."""
        return Event(self.device).record(self)

    def wait(self, other: Event | Stream) -> None:
        """Let what is enqueued from now on begin after an event, or after another stream's work.

        The host does not wait, unless the other is of another device.

        Raises
        ------
        LaunchError
            For an event that was never recorded.
        """
        if not isinstance(other, Event | Stream):
            raise TypeError(f"a stream waits for an Event or a Stream, not for {other!r}")
        event = other.record() if isinstance(other, Stream) else other
        if event.device is self.device:
            self._queue.wait_for(event.mark)
        else:
            event.wait()

    def synchronize(self) -> None:
        """Wait for all that was enqueued in it."""
        self._queue.synchronize()
        reports.raise_reported(self.device)


class Event:
    """A point in a stream, reached once all that was enqueued before it is done.

    Parameters
    ----------
    device : str, Device or None
        Whose streams; None means the device in use.

    Attributes
    ----------
    device : Device
        Whose.

    Examples
    --------
    >>> start, stop = pt.Event(), pt.Event()  # doctest: +SKIP
    >>> start.record()  # doctest: +SKIP
    >>> kernel[n](x)  # doctest: +SKIP
    >>> stop.record()  # doctest: +SKIP
    >>> print(start.elapsed(stop), "seconds")  # doctest: +SKIP
    """

    def __init__(self, device: str | Device | None = None) -> None:
        self.device = registry.device(device)
        self._mark: Mark | None = None

    def __repr__(self) -> str:
        state = "not recorded" if self._mark is None else "reached" if self.done else "pending"
        return f"<portable event of {self.device.name}: {state}>"

    def record(self, stream: Stream | None = None) -> Self:
        """Put the event at the end of a stream, or of the one that launches go to now.

        Raises
        ------
        DeviceMismatchError
            If the stream is of another device.
        """
        if stream is None:
            self._mark = self.device.mark()
        elif stream.device is self.device:
            self._mark = stream._queue.mark()
        else:
            raise DeviceMismatchError(
                f"an event of {self.device.name} in a stream of {stream.device.name}; make it with "
                f"portable.Event({stream.device.name!r})"
            )
        return self

    @property
    def mark(self) -> Mark:
        """What the device has for it.

        Raises
        ------
        LaunchError
            If it was never recorded.
        """
        if self._mark is None:
            raise LaunchError("this event was never recorded; call record() first")
        return self._mark

    @property
    def done(self) -> bool:
        """Whether it is reached, without waiting."""
        return self.mark.reached

    def wait(self) -> None:
        """Wait until it is reached."""
        self.mark.wait()
        reports.raise_reported(self.device)

    def elapsed(self, later: Event) -> float:
        """Wait for both events, and give the device's seconds from this one to a later one.

        Negative if the other is the earlier one.

        Raises
        ------
        DeviceMismatchError
            If the two are of different devices, whose clocks differ.
        LaunchError
            If one was never recorded.
        """
        if later.device is not self.device:
            raise DeviceMismatchError(
                f"events of {self.device.name} and {later.device.name}: devices have clocks of "
                "their own"
            )
        return later.mark.seconds_after(self.mark)


class Timer:
    """Measures a device's own time for what is enqueued in a block.

    Parameters
    ----------
    device : str, Device or None
        Which; None means the device in use.

    Examples
    --------
    >>> with pt.Timer() as timer:  # doctest: +SKIP
    ...     kernel[n](x)
    >>> print(timer.seconds)  # doctest: +SKIP
    """

    def __init__(self, device: str | Device | None = None) -> None:
        self._start, self._stop = Event(device), Event(device)

    def __enter__(self) -> Self:
        self._start.record()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.record()

    @property
    def seconds(self) -> float:
        """Wait for the end of the block's work, and give the device's seconds for it."""
        return self._start.elapsed(self._stop)
