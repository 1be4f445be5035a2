"""Collectives between GPUs: NCCL on NVIDIA's, RCCL on AMD's, through CuPy's binding of either."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from socket import gethostname
from typing import Any, Final

import numpy as np

from portable.backend.collectives import Collectives, Writer
from portable.errors import DeviceFaultError, DTypeError
from portable_backends.cuda.streams import get_ready

# Signals and copies straight into the memory of other GPUs, without kernels there.


# Copies straight into the memory of other GPUs, which take none of their units from kernels.
#
# A GPU writes what it worked out where the others want it, by its copy engines. Processes open each
# other's memory by the handles that CUDA has for that.

_LAZY_PEER_ACCESS: Final = 1
_ANY_DIRECTION: Final = 4
_ALREADY_ENABLED: Final = 704


@dataclass(frozen=True, slots=True)
class Offer:
    """Where others may write.

    Attributes
    ----------
    host : str
        The machine.
    process : int
    device : int
        CuPy's number there.
    handle : bytes
        CUDA's handle of the memory.
    base : int
        Its address in that process.
    begins : tuple of int
        The bytes before each array in it.
    """

    host: str
    process: int
    device: int
    handle: bytes
    base: int
    begins: tuple[int, ...]


class Places:
    """The addresses of others' arrays, as long as they are kept.

    Attributes
    ----------
    addresses : list of tuple of int
        Of each member's arrays.
    """

    def __init__(self, addresses: list[tuple[int, ...]], mapped: list[int], device: int) -> None:
        self.addresses = addresses
        weakref.finalize(self, _close, mapped, device).atexit = False


def offered(arrays: Sequence[Any]) -> Offer | None:
    """What others need to write into arrays that share one allocation; None where they cannot."""
    from cupy.cuda import runtime

    if runtime.is_hip or not arrays or not arrays[0].nbytes:
        return None
    base, size = _allocation(arrays[0].data.ptr)
    begins = tuple(array.data.ptr - base for array in arrays)
    if any(not 0 <= begin < size for begin in begins):
        return None
    try:
        handle = bytes(runtime.ipcGetMemHandle(base))
    except runtime.CUDARuntimeError:  # CUDA has none for what comes from a pool of its own
        return None
    device = arrays[0].data.device_id
    return Offer(gethostname(), os.getpid(), device, handle, base, begins)


def opened(offers: Sequence[Offer]) -> Places | None:
    """Others' arrays, for the current device; None where it cannot write there."""
    from cupy.cuda import runtime

    if len({offer.host for offer in offers}) > 1:
        return None
    mapped: list[int] = []
    addresses = []
    try:
        for offer in offers:
            base = offer.base
            if offer.process != os.getpid():
                base = runtime.ipcOpenMemHandle(offer.handle, _LAZY_PEER_ACCESS)
                mapped.append(base)
            elif offer.device != runtime.getDevice():
                _enable(offer.device)
            addresses.append(tuple(base + begin for begin in offer.begins))
    except runtime.CUDARuntimeError:
        _close(mapped, runtime.getDevice())
        return None
    return Places(addresses, mapped, runtime.getDevice())


def copy(target: int, array: Any, stream: int) -> None:
    """Enqueues a copy of a contiguous array to an address of any device."""
    from cupy.cuda import runtime

    runtime.memcpyAsync(target, array.data.ptr, array.nbytes, _ANY_DIRECTION, stream)


def _enable(peer: int) -> None:
    """Lets copies of the current device go straight to another one."""
    from cupy.cuda import runtime

    try:
        runtime.deviceEnablePeerAccess(peer)
    except runtime.CUDARuntimeError as error:
        if error.status != _ALREADY_ENABLED:
            raise


def _close(mapped: list[int], device: int) -> None:
    """Gives up what was opened."""
    from cupy.cuda import Device, runtime

    if not mapped:
        return
    with Device(device):
        Device(device).synchronize()  # copies may be under way
        for base in mapped:
            runtime.ipcCloseMemHandle(base)


def _allocation(address: int) -> tuple[int, int]:
    """The address and the size of the allocation that an address is in."""
    base, size = ctypes.c_uint64(), ctypes.c_size_t()
    status = driver().cuMemGetAddressRange_v2(
        ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(address)
    )
    return (base.value, size.value) if status == 0 else (address, 0)


@cache
def driver() -> Any:
    """The driver's functions."""
    return ctypes.CDLL("libcuda.so.1")


# Words by which GPUs tell each other how far they are, without a kernel.
#
# Streams write words into other GPUs' memory and wait for those that others write into theirs, by
# the operations on memory that CUDA's driver has for streams. A kernel that waits (NCCL's) needs
# units, which other kernels may hold for long.

_AT_LEAST: Final = 0
_NOTHING_MORE: Final = 0
_EVER: Final = 1 << 30
"""More than any count; the driver compares by the sign of the difference."""


class Signal(IntEnum):
    """What a word says.

    Attributes
    ----------
    READY
        That a device may be written to.
    WRITTEN
        That a device has written.
    """

    READY = 0
    WRITTEN = 1


def words_for(size: int) -> Any:
    """Words of one device for the signals of so many, which are there when this returns."""
    import cupy

    words = cupy.zeros((len(Signal), size), np.uint32)
    get_ready()
    cupy.cuda.get_current_stream().synchronize()
    return words


def opened_signals(words: Any, offers: Sequence[Offer], rank: int) -> Signals | None:
    """Signals by way of each device's words, for device `rank`; None where it cannot send them."""
    import cupy

    places = opened(offers)
    if places is None:
        return None
    stream = cupy.cuda.get_current_stream().ptr
    able = _write(stream, words.data.ptr + words.itemsize * rank, 0) == 0
    return Signals(words, places, rank) if able else None


class Signals:
    """One device's signals; all devices of a group count what they do in the same way.

    Parameters
    ----------
    words : cupy.ndarray of uint32, shape (2, devices)
        What others tell this device.
    places : Places
        Of everybody's words.
    rank : int
        The number of this device.
    """

    def __init__(self, words: Any, places: Places, rank: int) -> None:
        self._words: Final = words
        self._places: Final = places
        self._rank: Final = rank
        self._count = 0

    @property
    def others(self) -> list[int]:
        """The numbers of the other devices."""
        return [r for r in range(len(self._places.addresses)) if r != self._rank]

    def next(self) -> int:
        """Counts one thing more."""
        self._count += 1
        return self._count

    def send(self, to: int, signal: Signal, count: int, stream: int) -> None:
        """Tells another device so, once the stream has come as far."""
        _check(_write(stream, self._address(to, signal), count))

    def wait(self, source: int, signal: Signal, count: int, stream: int) -> None:
        """Has the stream wait until another device has told so."""
        address = self._words.data.ptr + self._offset(signal, source)
        _check(
            driver().cuStreamWaitValue32_v2(
                ctypes.c_void_p(stream),
                ctypes.c_uint64(address),
                ctypes.c_uint32(count),
                ctypes.c_uint(_AT_LEAST),
            )
        )

    def let_go(self, stream: int) -> None:
        """Has all other devices wait for this one no more, as well as can be."""
        with self._words.device:
            for other in self.others:
                for signal in Signal:
                    _write(stream, self._address(other, signal), _EVER)

    def _address(self, to: int, signal: Signal) -> int:
        """Of the word by which this device tells another one."""
        return self._places.addresses[to][0] + self._offset(signal, self._rank)

    def _offset(self, signal: Signal, source: int) -> int:
        """Bytes before the word of a signal that comes from a device."""
        return int(self._words.itemsize) * (int(self._words.shape[1]) * signal + source)


def _write(stream: int, address: int, value: int) -> int:
    """Enqueues that a word is written; gives the driver's status."""
    return int(
        driver().cuStreamWriteValue32_v2(
            ctypes.c_void_p(stream),
            ctypes.c_uint64(address),
            ctypes.c_uint32(value),
            ctypes.c_uint(_NOTHING_MORE),
        )
    )


def _check(status: int) -> None:
    if status:
        raise DeviceFaultError(
            f"the driver refused a signal to another GPU (CUDA's error {status}); an earlier "
            "kernel may have failed"
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
