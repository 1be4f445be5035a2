"""Work that is enqueued again and again, as CUDA graphs through CuPy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from portable.profiling import timeline
from portable_backends.cuda.waits import get_ready

if TYPE_CHECKING:
    from portable_backends.cuda.backend import CuPyDevice


_PRIORITY: Final = -5
"""Of what is captured, but for branches: the highest there is."""


class _Capture(threading.local):
    """Streams of branches of the graph that a thread captures, and how many are open."""

    streams: list[Any] | None = None
    depth = 0


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
    """Has `work` run beside what is enqueued in this context, if a graph is being captured."""
    from cupy import cuda

    stream, streams, depth = cuda.get_current_stream(), _capture.streams, _capture.depth
    if streams is None or not stream.is_capturing():
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
