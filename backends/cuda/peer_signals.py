"""Words by which GPUs tell each other how far they are, without a kernel.

Streams write words into other GPUs' memory and wait for those that others write into theirs, by the
operations on memory that CUDA's driver has for streams. A kernel that waits (NCCL's) needs units,
which other kernels may hold for long.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final

import numpy as np

from portable.errors import DeviceFaultError
from portable_backends.cuda.peer_copies import Offer, Places, driver, opened
from portable_backends.cuda.waits import get_ready

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
