"""Collectives between GPUs: NCCL on NVIDIA's, RCCL on AMD's, through CuPy's binding of either."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from portable.backend.collectives import Collectives, Writer
from portable.errors import DTypeError
from portable_backends.cuda.peers import (
    Offer,
    Places,
    Signal,
    Signals,
    copy,
    offered,
    opened,
    opened_signals,
    words_for,
)


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


_TYPES: Final = {
    "int8": "NCCL_INT8",
    "uint8": "NCCL_UINT8",
    "bool": "NCCL_UINT8",
    "int32": "NCCL_INT32",
    "uint32": "NCCL_UINT32",
    "int64": "NCCL_INT64",
    "uint64": "NCCL_UINT64",
    "float16": "NCCL_FLOAT16",
    "bfloat16": "NCCL_BFLOAT16",
    "float32": "NCCL_FLOAT32",
    "float64": "NCCL_FLOAT64",
}
_URGENT: Final = -1
"""The priority of what goes on beside kernels: it is small, and others wait for it."""

_OPERATIONS: Final = {"sum": "NCCL_SUM", "max": "NCCL_MAX", "min": "NCCL_MIN"}


def _nccl() -> Any | None:
    """CuPy's binding, if it has one."""
    try:
        from cupy.cuda import nccl
    except ImportError:
        return None
    return nccl if getattr(nccl, "available", False) else None


def in_one_process(indices: list[int]) -> list[Collectives] | None:
    """A part for each of different devices, by CuPy's numbers."""
    nccl = _nccl()
    if nccl is None:
        return None
    parts = nccl.NcclCommunicator.initAll(indices)
    return [_Part(nccl, part, rank, len(indices)) for rank, part in enumerate(parts)]


def key() -> object | None:
    """What the processes of a new group share."""
    nccl = _nccl()
    return None if nccl is None else nccl.get_unique_id()


def joined(key: object, rank: int, size: int) -> Collectives:
    """The part of the current device in a group of processes; waits for the others."""
    nccl = _nccl()
    assert nccl is not None
    part = _Part(nccl, nccl.NcclCommunicator(size, key, rank), rank, size)
    part.replays = True
    return part


class _Part(Collectives):
    """A device's communicator, and a stream for what goes on beside its work."""

    name = "NCCL"

    def __init__(self, nccl: Any, communicator: Any, rank: int, size: int) -> None:
        self._nccl = nccl
        self._communicator = communicator
        self._rank = rank
        self._size = size
        self._beside: Any = None
        self._words: Any = None
        self._signals: Signals | None = None
        self._nothing: Any = None

    def all_reduce(self, x: Any, out: Any, op: str) -> None:
        """Enqueued on the current stream."""
        self._communicator.allReduce(
            x.data.ptr, out.data.ptr, x.size, self._type(x), self._operation(op), _current()
        )

    def start_all_reduce(self, x: Any, out: Any, op: str) -> Callable[[], None]:
        """On the same stream as `start_gather`."""
        beside = self._stream_beside()
        self._communicator.allReduce(
            x.data.ptr, out.data.ptr, x.size, self._type(x), self._operation(op), beside.ptr
        )
        return awaited(beside)

    def reduce_scatter(self, x: Any, out: Any, op: str) -> None:
        """Enqueued on the current stream."""
        self._communicator.reduceScatter(
            x.data.ptr, out.data.ptr, out.size, self._type(x), self._operation(op), _current()
        )

    def all_gather(self, x: Any, out: Any) -> None:
        """Enqueued on the current stream."""
        self._communicator.allGather(x.data.ptr, out.data.ptr, x.size, self._type(x), _current())

    def broadcast(self, x: Any, root: int) -> None:
        """Enqueued on the current stream."""
        self._communicator.broadcast(
            x.data.ptr, x.data.ptr, x.size, self._type(x), root, _current()
        )

    def start_gather(self, x: Any, outs: Sequence[Any]) -> Callable[[], None]:
        """On a stream of its own, which waits for what the current one was given so far."""
        beside = self._stream_beside()
        self._nccl.groupStart()
        for root, out in enumerate(outs):
            source = x.data.ptr if root == self._rank else out.data.ptr
            self._communicator.broadcast(
                source, out.data.ptr, x.size, self._type(x), root, beside.ptr
            )
        self._nccl.groupEnd()
        return awaited(beside)

    def offer(self, arrays: Sequence[Any]) -> object | None:
        """Where their memory is, for others, and where the words are that others write."""
        mine = offered(arrays)
        if mine is None:
            return None
        if self._words is None:
            self._words = words_for(self._size)
        words = offered([self._words])
        return None if words is None else (mine, words)

    def writer(self, offers: Sequence[tuple[Offer, Offer]]) -> Writer | None:
        """Its copy engines write, on the same stream as `start_gather`."""
        places = opened([arrays for arrays, _ in offers])
        if places is None:
            return None
        if self._signals is None:
            words = [words for _, words in offers]
            self._signals = opened_signals(self._words, words, self._rank)
            self._own_stream()  # others may want it to be let go before anything is sent
        if self._signals is None:
            return None
        return PeerWriter(places, self._signals, self._rank, self._stream_beside, self._meet)

    def _meet(self, stream: Any) -> None:
        """Has a stream wait until those of all devices have come as far: they add up nothing."""
        if self._nothing is None:
            import cupy

            self._nothing = cupy.zeros(1, np.int32)
        address, kind = self._nothing.data.ptr, self._type(self._nothing)
        self._communicator.allReduce(address, address, 1, kind, self._operation("sum"), stream.ptr)

    def start_broadcast(self, x: Any, root: int) -> Callable[[], None]:
        """On the same stream as `start_gather`."""
        beside = self._stream_beside()
        self._communicator.broadcast(
            x.data.ptr, x.data.ptr, x.size, self._type(x), root, beside.ptr
        )
        return awaited(beside)

    def _stream_beside(self) -> Any:
        """The stream for what goes on beside, after all that the current one was given so far."""
        import cupy

        beside = self._own_stream()
        beside.wait_event(cupy.cuda.get_current_stream().record())
        return beside

    def _own_stream(self) -> Any:
        """The stream for what goes on beside."""
        import cupy

        if self._beside is None:
            self._beside = cupy.cuda.Stream(non_blocking=True, priority=_URGENT)
        return self._beside

    def abort(self) -> None:
        """Lets kernels go that wait for other devices, and devices that wait for this one."""
        self._communicator.abort()
        if self._signals is not None:
            self._signals.let_go(self._own_stream().ptr)

    def _type(self, x: Any) -> int:
        name = np.dtype(x.dtype).name
        if name not in _TYPES:
            raise DTypeError(f"NCCL takes no {name}; it takes {', '.join(_TYPES)}")
        return int(getattr(self._nccl, _TYPES[name]))

    def _operation(self, op: str) -> int:
        return int(getattr(self._nccl, _OPERATIONS[op]))


def _current() -> int:
    import cupy

    return int(cupy.cuda.get_current_stream().ptr)
