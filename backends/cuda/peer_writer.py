"""What GPUs of one machine write into each other's memory by their copy engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from portable.backend.collectives import Writer
from portable_backends.cuda.peer_copies import Places, copy
from portable_backends.cuda.peer_signals import Signal, Signals

__all__ = ["PeerWriter", "awaited"]


class PeerWriter(Writer):
    """Writes on a stream beside the current one.

    Parameters
    ----------
    places : Places
        Of everybody's arrays.
    signals : Signals
        From and to the same devices.
    rank : int
        Which of them this one is.
    beside : callable
        Gives the stream, which has come as far as the current one.
    meet : callable
        Has a stream wait until those of all devices have come as far.
    """

    def __init__(
        self,
        places: Places,
        signals: Signals,
        rank: int,
        beside: Callable[[], Any],
        meet: Callable[[Any], None],
    ) -> None:
        self._places: Final = places
        self._signals: Final = signals
        self._rank: Final = rank
        self._beside: Final = beside
        self._meet: Final = meet

    def gather(self, x: Any, number: int) -> Callable[[], None]:
        """All meet before and after, by kernels, which graphs take up."""
        stream = self._beside()
        self._meet(stream)  # all are ready to be written to
        for addresses in self._places.addresses:
            if addresses[number] != x.data.ptr:
                copy(addresses[number], x, stream.ptr)
        self._meet(stream)  # all have written
        return awaited(stream)

    def broadcast(self, x: Any, number: int, root: int) -> Callable[[], None]:
        """By signals, for which kernels that hold all units are not waited for."""
        stream, signals = self._beside(), self._signals
        count = signals.next()
        if self._rank != root:
            signals.send(root, Signal.READY, count, stream.ptr)
            signals.wait(root, Signal.WRITTEN, count, stream.ptr)
            return awaited(stream)
        for other in signals.others:
            signals.wait(other, Signal.READY, count, stream.ptr)
            copy(self._places.addresses[other][number], x, stream.ptr)
            signals.send(other, Signal.WRITTEN, count, stream.ptr)
        return awaited(stream)


def awaited(stream: Any) -> Callable[[], None]:
    """What makes the current stream wait for what another one was given so far."""
    import cupy

    event = stream.record()
    return lambda: cupy.cuda.get_current_stream().wait_event(event)
