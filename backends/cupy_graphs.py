"""Work that is enqueued again and again, as CUDA graphs through CuPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from portable import timeline

if TYPE_CHECKING:
    from portable_backends.cupy import CuPyDevice

__all__ = ["captured"]


def captured(device: CuPyDevice, work: Callable[[], None]) -> Callable[[], None]:
    """A launch of a graph of what `work` enqueues; each by itself while launches are recorded.

    Memory that `work` takes for a while comes from a pool of the graph's own, so that nobody else
    uses it. The stream that it is captured on is kept, for its address stands for what operations
    keep between launches.
    """
    from cupy import cuda

    pool = cuda.MemoryPool()
    with device.stream_scope():
        stream = cuda.Stream(non_blocking=True)
        with stream, cuda.using_allocator(pool.malloc):
            graph = _graph(stream, work)

    def run(kept: Any = (pool, stream)) -> None:
        if timeline.recording is not None:
            work()
        elif cuda.runtime.getDevice() == device.index:
            graph.launch()
        else:
            with device.stream_scope():
                graph.launch()

    return run


def _graph(stream: Any, work: Callable[[], None]) -> Any:
    """Other threads go on with what they do, loading programs included."""
    stream.begin_capture()
    try:
        work()
    except BaseException:
        stream.end_capture()
        raise
    graph = stream.end_capture()
    graph.upload(stream)
    return graph
