"""What devices did and when: collected while a recording is on, at no cost while none is.

Backends look at `recording` at each launch and copy. Where it is not None they hand it what they
enqueue, either with functions that tell the device's own times afterwards (`Recording.add`), or
between two marks of the device's queue (`Recording.between`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from threading import get_ident
from time import perf_counter
from typing import Final, Literal, NamedTuple

from portable.backend import Device
from portable.backend.queues import Mark
from portable.system.locks import fork_safe_lock

HOST: Final = "host"
"""What stands for a device where the host works."""

Kind = Literal["launch", "to device", "from device", "annotation", "compilation"]


class Entry(NamedTuple):
    """One thing that a device is given to do.

    Attributes
    ----------
    name : str
        The kernel's; what is copied where, of copies; the author's word, of annotations; what is
        done to which kernel, of compilations.
    kind : {"launch", "to device", "from device", "annotation", "compilation"}
        What it is.
    groups, workgroup : (int, int, int)
        Of launches.
    nbytes : int
        Of copies.
    """

    name: str
    kind: Kind
    groups: tuple[int, int, int] = (0, 0, 0)
    workgroup: tuple[int, int, int] = (0, 0, 0)
    nbytes: int = 0


@dataclass(frozen=True, slots=True)
class Span:
    """One thing that a device did.

    Attributes
    ----------
    entry : Entry
        What.
    device : str
        The device's name; ``"host"`` for annotations and compilations.
    queue : int
        Which of its queues, in the order of their first use; on the host the thread.
    enqueued : float
        When the host asked for it, in seconds since the recording began.
    start, stop : float
        When it was done, likewise.
    """

    entry: Entry
    device: str
    queue: int
    enqueued: float
    start: float
    stop: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.stop - self.start


class _Noted(NamedTuple):
    entry: Entry
    device: str
    queue: object
    enqueued: float
    times: Callable[[], tuple[float, float]]


class _Base(NamedTuple):
    """A mark of a device, and the host's time at which it had been reached."""

    mark: Mark
    at: float


class Recording:
    """What is noted between `begin` and `end`; safe under threads."""

    def __init__(self) -> None:
        self.began = perf_counter()
        self._lock = fork_safe_lock()
        self._noted: list[_Noted] = []
        self._bases: dict[str, _Base] = {}
        self._at_end: dict[object, Callable[[], None]] = {}

    def add(
        self,
        device: str,
        entry: Entry,
        enqueued: float,
        times: Callable[[], tuple[float, float]],
        queue: object = None,
    ) -> None:
        """Note something; `times` gives its start and stop by the host's clock once it is done."""
        self._noted.append(_Noted(entry, device, queue, enqueued, times))

    @contextmanager
    def between(self, device: Device, entry: Entry, queue: object = None) -> Iterator[None]:
        """Note what is enqueued inside, from mark to mark of the device's current queue."""
        finish = self.started(device, entry, queue)
        yield
        finish()

    def started(self, device: Device, entry: Entry, queue: object = None) -> Callable[[], None]:
        """The same for what is enqueued from now on until the result is called."""
        base = self._base(device)
        enqueued = perf_counter()
        first = device.mark()

        def finish() -> None:
            last = device.mark()

            def times() -> tuple[float, float]:
                start, stop = first.seconds_after(base.mark), last.seconds_after(base.mark)
                return base.at + start, base.at + stop

            self.add(device.name, entry, enqueued, times, queue)

        return finish

    def _base(self, device: Device) -> _Base:
        with self._lock:
            base = self._bases.get(device.name)
            if base is None:
                mark = device.mark()
                mark.wait()
                base = self._bases[device.name] = _Base(mark, perf_counter())
            return base

    def once(self, key: object, start: Callable[[], None], stop: Callable[[], None]) -> None:
        """Call `start` now, unless this was done for `key` before, and `stop` at the end."""
        with self._lock:
            if key not in self._at_end:
                start()
                self._at_end[key] = stop

    def spans(self) -> tuple[Span, ...]:
        """What was noted, in the order of the starts; the devices have to be done with it."""
        queues: dict[tuple[str, object], int] = {}
        counts: dict[str, int] = {}
        spans = []
        for noted in self._noted:
            key = (noted.device, noted.queue)
            if key not in queues:
                queues[key] = counts.get(noted.device, 0)
                counts[noted.device] = queues[key] + 1
            start, stop = noted.times()
            times = (noted.enqueued - self.began, start - self.began, stop - self.began)
            spans.append(Span(noted.entry, noted.device, queues[key], *times))
        return tuple(sorted(spans, key=lambda span: span.start))

    def close(self) -> None:
        """What backends wanted to have called at the end."""
        for stop in self._at_end.values():
            stop()
        self._at_end.clear()


recording: Recording | None = None
"""The one that is on. Read it as ``timeline.recording``: it changes."""


def begin() -> Recording:
    """Start recording.

    Raises
    ------
    RuntimeError
        If a recording is on: devices have one record of times.
    """
    global recording  # noqa: PLW0603  (one per process, which backends ask for at each launch)
    if recording is not None:
        raise RuntimeError("a recording is on already; end its block first")
    recording = Recording()
    return recording


def end() -> None:
    """Stop recording."""
    global recording  # noqa: PLW0603
    recording = None


@contextmanager
def on_host(name: str, kind: Kind) -> Iterator[None]:
    """A context whose time on the host is noted if a recording is on.

    Parameters
    ----------
    name : str
        What is done.
    kind : {"annotation", "compilation"}
        What that is.
    """
    now, start = recording, perf_counter()
    yield
    if now is not None:
        times = (start, perf_counter())
        now.add(HOST, Entry(name, kind), start, lambda: times, get_ident())


def copying(
    device: Device, kind: Literal["to device", "from device"], nbytes: int
) -> AbstractContextManager[None]:
    """A context in which one copy is enqueued, to be noted if a recording is on.

    Parameters
    ----------
    device : Device
        The device that copies.
    kind : {"to device", "from device"}
        Which way.
    nbytes : int
        How many bytes.
    """
    now = recording
    if now is None:
        return nullcontext()
    return now.between(device, Entry(f"copy {kind}", kind, nbytes=nbytes))
