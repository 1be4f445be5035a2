"""Collectives between GPUs: NCCL on NVIDIA's, RCCL on AMD's, through CuPy's binding of either."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from portable.collectives import Collectives
from portable.errors import DTypeError
from portable_backends.peer_copies import copy, offered, opened

__all__ = ["in_one_process", "joined", "key"]

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
        return _awaited(beside.record())

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
        return _awaited(beside.record())

    def offer(self, arrays: Sequence[Any]) -> object | None:
        """Where their memory is, for others."""
        return offered(arrays)

    def writer(
        self, offers: Sequence[Any]
    ) -> Callable[[Sequence[tuple[Any, int]]], Callable[[], None]] | None:
        """Its copy engines write, on the same stream as `start_gather`."""
        places = opened(offers)
        if places is None:
            return None
        import cupy

        nothing = cupy.zeros(1, np.int32)

        def start(writes: Sequence[tuple[Any, int]]) -> Callable[[], None]:
            beside = self._stream_beside()
            self._meet(nothing, beside.ptr)  # all are ready to be written to
            for array, number in writes:
                for addresses in places.addresses:
                    if addresses[number] != array.data.ptr:
                        copy(addresses[number], array, beside.ptr)
            self._meet(nothing, beside.ptr)  # all have written
            return _awaited(beside.record())

        return start

    def _meet(self, nothing: Any, stream: int) -> None:
        """Has a stream wait until those of all devices have come as far: they add up nothing."""
        address, kind = nothing.data.ptr, self._type(nothing)
        self._communicator.allReduce(address, address, 1, kind, self._operation("sum"), stream)

    def start_broadcast(self, x: Any, root: int) -> Callable[[], None]:
        """On the same stream as `start_gather`."""
        beside = self._stream_beside()
        self._communicator.broadcast(
            x.data.ptr, x.data.ptr, x.size, self._type(x), root, beside.ptr
        )
        return _awaited(beside.record())

    def _stream_beside(self) -> Any:
        """The stream for what goes on beside, after all that the current one was given so far."""
        import cupy

        if self._beside is None:
            self._beside = cupy.cuda.Stream(non_blocking=True, priority=_URGENT)
        self._beside.wait_event(cupy.cuda.get_current_stream().record())
        return self._beside

    def abort(self) -> None:
        """Lets kernels go that wait for other devices."""
        self._communicator.abort()

    def _type(self, x: Any) -> int:
        name = np.dtype(x.dtype).name
        if name not in _TYPES:
            raise DTypeError(f"NCCL takes no {name}; it takes {', '.join(_TYPES)}")
        return int(getattr(self._nccl, _TYPES[name]))

    def _operation(self, op: str) -> int:
        return int(getattr(self._nccl, _OPERATIONS[op]))


def _awaited(event: Any) -> Callable[[], None]:
    """What makes the current stream wait for an event."""
    import cupy

    return lambda: cupy.cuda.get_current_stream().wait_event(event)


def _current() -> int:
    import cupy

    return int(cupy.cuda.get_current_stream().ptr)
