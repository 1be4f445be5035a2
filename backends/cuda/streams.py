"""Streams and events of CuPy, and ranges for the vendors' profilers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from portable.backend.queues import Mark, Queue
from portable.errors import DeviceFaultError

if TYPE_CHECKING:
    from portable_backends.cuda.backend import CuPyDevice


class CuPyMark(Mark):
    """An event on a stream.

    Parameters
    ----------
    stream : cupy.cuda.Stream
        The stream, of CuPy's current device.
    """

    def __init__(self, stream: Any) -> None:
        from cupy import cuda

        self.event = cuda.Event()
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
