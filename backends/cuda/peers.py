"""Signals and copies straight into the memory of other GPUs, without kernels there."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from socket import gethostname
from typing import Any, Final

import numpy as np

from portable.errors import DeviceFaultError
from portable_backends.cuda.streams import get_ready

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
