"""Streams and events of CuPy, and ranges for the vendors' profilers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from portable.backend.queues import Mark, Queue
from portable.errors import DeviceFaultError
from portable.profiling import timeline

if TYPE_CHECKING:
    from portable_backends.cuda.backend import CuPyDevice

# What a thread does before CuPy or its driver keeps it waiting, and with it other threads.

_here = threading.local()


def get_ready() -> None:
    """To be called before a program is loaded, memory is taken or the device is waited for."""
    ready = getattr(_here, "ready", None)
    if ready is not None:
        ready()


@contextmanager
def before_waits(ready: Callable[[], None]) -> Iterator[None]:
    """A context that has `get_ready` of this thread call `ready`, as CuPy's pool does too."""
    from cupy.cuda import MemoryHook

    class Hook(MemoryHook):  # type: ignore[misc]  # (CuPy is not typed)
        name = "portable.parallel"

        def alloc_preprocess(self, **_: Any) -> None:
            """Before the driver is asked for memory, and may wait for what goes on."""
            ready()

    before = getattr(_here, "ready", None)
    _here.ready = ready
    try:
        with Hook():
            yield
    finally:
        _here.ready = before


# Work that is enqueued again and again, as CUDA graphs through CuPy.


_PRIORITY: Final = -5
"""Of what is captured, but for branches: the highest there is."""


class _Capture(threading.local):
    """Streams of branches of the graph that a thread captures, and how many are open.

    Those of what is not captured are a device's, by its number.
    """

    streams: list[Any] | None = None
    depth = 0

    def __init__(self) -> None:
        self.others: dict[int, list[Any]] = {}


_capture: Final = _Capture()


class Replay:
    """Enqueues the same work at each call: the first as it is, later ones by a graph.

    The first call loads programs and chooses among them, which a graph cannot. Launches are
    enqueued one by one while they are recorded, so that each is seen.

    Parameters
    ----------
    device : CuPyDevice
    work : callable
        As `portable.backend.Device.replay` takes it.
    """

    def __init__(self, device: CuPyDevice, work: Callable[[], object]) -> None:
        from cupy import cuda

        self._device: Final = device
        self._work: Final = work
        self._cuda: Final = cuda
        self._warm = False
        self._graph: Any = None
        self._kept: Any = None

    def __call__(self) -> None:
        """Enqueue it on CuPy's current stream."""
        if not self._warm or timeline.recording is not None or self._is_captured():
            self._work()
            self._warm = True
        elif self._graph is not None and self._cuda.runtime.getDevice() == self._device.index:
            self._graph.launch()
        else:
            with self._device.stream_scope():
                if self._graph is None:
                    self._graph = self._captured()
                self._graph.launch()

    def _is_captured(self) -> bool:
        """Whether this is part of a larger graph that is being captured."""
        return bool(self._cuda.get_current_stream().is_capturing())

    def _captured(self) -> Any:
        """The graph.

        Memory that the work takes for a while comes from a pool of its own, so that nobody else
        uses it. The stream is kept as well: its address stands for what operations keep of a queue.
        Other threads go on meanwhile, as they load programs and take memory.
        """
        get_ready()
        pool = self._cuda.MemoryPool()
        stream = self._cuda.Stream(non_blocking=True, priority=_PRIORITY)
        before, _capture.streams = _capture.streams, []
        self._kept = pool, stream, _capture.streams
        with stream, self._cuda.using_allocator(pool.malloc):
            stream.begin_capture()
            try:
                self._work()
            finally:
                _capture.streams = before
                graph = stream.end_capture()
            graph.upload(stream)
        return graph


@contextmanager
def branch(work: Callable[[], object]) -> Iterator[None]:
    """Has `work` run beside what is enqueued in this context, unless each launch is timed."""
    from cupy import cuda

    stream, streams, depth = cuda.get_current_stream(), _capture.streams, _capture.depth
    captured = stream.is_capturing()
    if not captured:
        streams = _capture.others.setdefault(cuda.runtime.getDevice(), [])
    if streams is None or (not captured and timeline.recording is not None):
        yield
        work()
        return
    while len(streams) <= depth:
        streams.append(cuda.Stream(non_blocking=True))
    beside, forked = streams[depth], stream.record()
    _capture.depth += 1
    try:
        yield
        with beside:
            beside.wait_event(forked)
            work()
            joined = beside.record()
    finally:
        _capture.depth = depth
    stream.wait_event(joined)


class CuPyMark(Mark):
    """An event on a stream.

    Parameters
    ----------
    stream : cupy.cuda.Stream
        The stream, of CuPy's current device.
    timed : bool
        Whether times to or from it are asked for.
    """

    def __init__(self, stream: Any, timed: bool = True) -> None:
        from cupy import cuda

        self.event = cuda.Event(disable_timing=not timed)
        self.event.record(stream)
        self._cuda = cuda

    @property
    def reached(self) -> bool:
        """Whether the event has occurred."""
        return bool(self.event.done)

    def wait(self) -> None:
        """Wait for the event."""
        try:
            self.event.synchronize()
        except RuntimeError as error:
            raise DeviceFaultError(f"earlier work failed on the device: {error}") from error

    def seconds_after(self, earlier: Any) -> float:
        """By the device's clock."""
        earlier.wait()
        self.wait()
        return 1e-3 * float(self._cuda.get_elapsed_time(earlier.event, self.event))


class CuPyStream(Queue):
    """A stream of CuPy's that does not wait for the default one.

    Parameters
    ----------
    device : CuPyDevice
        Where.

    Attributes
    ----------
    handle : cupy.cuda.Stream
        CuPy's own stream.
    """

    def __init__(self, device: CuPyDevice) -> None:
        from cupy import cuda

        self._device = device
        with device.stream_scope():
            self.handle = cuda.Stream(non_blocking=True)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """CuPy's current device and stream are this one's, for everything that uses CuPy."""
        with self._device.stream_scope(), self.handle:
            yield

    def mark(self) -> Mark:
        """An event at its end."""
        with self._device.stream_scope():
            return CuPyMark(self.handle)

    def wait_for(self, mark: Mark) -> None:
        """Wait on the device for an event."""
        assert isinstance(mark, CuPyMark)
        with self._device.stream_scope():
            self.handle.wait_event(mark.event)

    def synchronize(self) -> None:
        """Wait for the stream."""
        try:
            self.handle.synchronize()
        except RuntimeError as error:
            raise DeviceFaultError(f"earlier work failed on the device: {error}") from error


@dataclass(frozen=True)
class StreamAt:
    """Another library's stream, by its address, as CuPy takes one."""

    address: int

    def __cuda_stream__(self) -> tuple[int, int]:
        """The version of the protocol, and the address."""
        return 0, self.address


def annotated(name: str) -> AbstractContextManager[None]:
    """A range of NVTX or rocTX, where CuPy was built with it."""
    try:
        from cupy.cuda import nvtx
    except ImportError:
        return nullcontext()
    return _range(nvtx, name)


@contextmanager
def _range(nvtx: Any, name: str) -> Iterator[None]:
    nvtx.RangePush(name)
    try:
        yield
    finally:
        nvtx.RangePop()
