"""Copies straight into the memory of other GPUs, which take none of their units from kernels.

A GPU writes what it worked out where the others want it, by its copy engines. Processes open each
other's memory by the handles that CUDA has for that.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from socket import gethostname
from typing import Any, Final

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
