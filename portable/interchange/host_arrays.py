"""NumPy's arrays on a device that was chosen and has memory of its own: there and back.

Where `portable.use`, ``PORTABLE_BACKEND`` or ``device=`` chose a device, calls whose arrays are all
NumPy's run on it. Launches of kernels send the memory that their arguments lie in, each byte once,
however they overlap, and what the kernel writes comes back, its elements and no others; operations
get arrays of the device and give NumPy's. Profiles show the copies.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from portable.backend import ArrayView, Device
from portable.errors import LaunchError
from portable.system.console import warn_once

_HostArray = np.ndarray[Any, Any]
_SAMPLE: Final = np.empty(0, np.float32)
_ALIGNMENT: Final = 64
_SPARSE: Final = 2
"""An array goes by itself, without gaps, where its elements span so many times their bytes."""


def tell_of_copies(device: Device) -> None:
    """Say once in a process that arrays are copied, and how that is spared."""
    warn_once(
        f"NumPy's arrays run on {device.name}, which was chosen: each call copies them there and "
        "back what it wrote. To spare the copies, keep arrays on the device "
        f"(x = portable.asarray(x, device={device.name!r}), portable.to_numpy(x)), or choose "
        "'cpu', which takes NumPy's in place",
        "copies of NumPy's arrays",
    )


# -- launches -----------------------------------------------------------------------------------


class SentArrays:
    """The arrays of a launch in a device's memory.

    Parameters
    ----------
    device : Device
    arrays : sequence of numpy.ndarray

    Attributes
    ----------
    views : list of ArrayView
        How the device sees each of them.
    """

    def __init__(self, device: Device, arrays: Sequence[_HostArray]) -> None:
        self._device = device
        arrays_in_place = [device.in_place(x) for x in arrays]
        self.views: list[ArrayView] = [v for v in arrays_in_place if v is not None]
        self._parts: list[_Part] = []
        if len(self.views) < len(arrays):
            tell_of_copies(device)
            self._parts = [_Part.sent(device, arrays, part) for part in _overlapping(arrays)]
            seen = {i: view for part in self._parts for i, view in part.views.items()}
            self.views = [seen[i] for i in range(len(arrays))]

    def fetch(self, written: Sequence[int]) -> None:
        """Brings back the elements of those arrays that were written, once all work is done."""
        if not self._parts:
            self._device.synchronize()
        for part in self._parts:
            part.fetch(self._device, [i for i in written if i in part.views])


@dataclass(slots=True)
class _Part:
    """Arrays that share memory, as one on a device.

    Attributes
    ----------
    arrays : dict of int to numpy.ndarray
        The host's, by their numbers.
    views : dict of int to ArrayView
        The device's.
    places : dict of int to int
        How many bytes into the part each begins; empty for one array that went without gaps.
    held : array of the device
    """

    arrays: dict[int, _HostArray]
    views: dict[int, ArrayView]
    places: dict[int, int]
    held: Any

    @classmethod
    def sent(cls, device: Device, arrays: Sequence[_HostArray], members: Sequence[int]) -> _Part:
        """Copies the memory of some of the arrays to a device."""
        members_arrays = {i: arrays[i] for i in members}
        if len(members_arrays) == 1 and _has_gaps(arrays[members[0]]):
            x = arrays[members[0]]
            held = device.from_numpy(np.ascontiguousarray(x))
            view = device.view(held)._replace(shape=x.shape, writable=x.flags.writeable)
            return cls(members_arrays, {members[0]: view._replace(layout=None)}, {}, held)
        bounds = [_bounds(x) for x in members_arrays.values()]
        low, high = min(x for x, _ in bounds), max(x for _, x in bounds)
        low -= low % _ALIGNMENT if len(members_arrays) > 1 else 0
        held = device.from_numpy(_bytes(low, high, min(x for x, _ in bounds)))
        places = {i: _address(x) - low for i, x in members_arrays.items()}
        base = device.view(held)
        views = {i: _behind(device, base, x, places[i]) for i, x in members_arrays.items()}
        return cls(members_arrays, views, places, held)

    def fetch(self, device: Device, written: Sequence[int]) -> None:
        """Copies the elements of some of the arrays back."""
        if not written:
            return
        back = device.to_numpy(self.held)
        for i in written:
            x = self.arrays[i]
            if not self.places:
                x[...] = back.reshape(x.shape)
            else:
                x[...] = np.ndarray(x.shape, x.dtype, back, self.places[i], x.strides)


def _behind(device: Device, base: ArrayView, x: _HostArray, by: int) -> ArrayView:
    """The view of an array so many bytes into memory."""
    offsets = device.capabilities.pointer_offsets
    return base._replace(
        dtype=x.dtype,
        shape=x.shape,
        strides=x.strides,
        handle=base.handle if offsets else device.behind(base.handle, by),
        address=base.address + by,
        offset=base.offset + by if offsets else base.offset,
        writable=x.flags.writeable,
        layout=None,
    )


def _address(x: _HostArray) -> int:
    return int(x.__array_interface__["data"][0])


def _bounds(x: _HostArray) -> tuple[int, int]:
    """The addresses of the first byte of an array and of that behind its last one."""
    address = _address(x)
    if not x.size:
        return address, address
    reach = [(n - 1) * stride for n, stride in zip(x.shape, x.strides, strict=True)]
    low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
    return address + low, address + high + x.itemsize


def _has_gaps(x: _HostArray) -> bool:
    low, high = _bounds(x)
    return not x.size or high - low >= _SPARSE * x.nbytes


def _overlapping(arrays: Sequence[_HostArray]) -> list[list[int]]:
    """The numbers of arrays, those together whose bytes lie between each other's."""
    bounds = [_bounds(x) for x in arrays]
    parts: list[list[int]] = []
    end = 0
    for i in sorted(range(len(arrays)), key=bounds.__getitem__):
        low, high = bounds[i]
        if parts and low < end:
            parts[-1].append(i)
            end = max(end, high)
        else:
            parts.append([i])
            end = high
    return parts


def _bytes(low: int, high: int, first: int) -> _HostArray:
    """The memory between two addresses, of which what is before `first` is nobody's."""
    memory: Any = (ctypes.c_char * (high - first)).from_address(first)
    held: _HostArray = np.frombuffer(memory, np.uint8)
    if first == low:
        return held
    padded = np.zeros(high - low, np.uint8)
    padded[first - low :] = held
    return padded


# -- operations ---------------------------------------------------------------------------------


class MovedCall:
    """One call of an operation with NumPy's arrays, which runs on a device.

    Parameters
    ----------
    device : Device
    """

    def __init__(self, device: Device) -> None:
        self._device = device.for_arrays()
        self._copies = not device.owns(_SAMPLE)
        self._sent: dict[Any, Any] = {}
        self._taken: dict[int, tuple[Any, _HostArray]] = {}

    def called(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """What the operation gives, in NumPy's arrays; those that are given back are written."""
        if self._copies:
            tell_of_copies(self._device)
        named = {name: self._moved(x) for name, x in kwargs.items()}
        result = function(*map(self._moved, args), **named)
        for x in _listed(kwargs.get("out")):
            self._given(self._moved(x))
        return self._given(result)

    def _moved(self, x: Any) -> Any:
        if isinstance(x, tuple):
            return rebuilt(x, map(self._moved, x))
        if not isinstance(x, np.ndarray):
            return x
        key = (_address(x), x.shape, x.strides, x.dtype)
        if key not in self._sent:
            seen = self._in_memory_order(x)
            self._sent[key] = seen
            self._taken[id(seen)] = seen, x
        return self._sent[key]

    def _in_memory_order(self, x: _HostArray) -> Any:
        """The array on the device; a transpose is one of what goes there once."""
        order = sorted(range(x.ndim), key=lambda axis: -abs(x.strides[axis]))
        plain = x.transpose(order)
        if order == [*range(x.ndim)] or not plain.flags.c_contiguous:
            return self._device.from_numpy(x)
        back = tuple(order.index(axis) for axis in range(x.ndim))
        return self._device.namespace().permute_dims(self._moved(plain), back)

    def _given(self, result: Any) -> Any:
        if isinstance(result, tuple):
            return rebuilt(result, map(self._given, result))
        known = self._taken.get(id(result))
        if known is not None:
            _write_back(self._device.to_numpy(result), known[1])
            return known[1]
        return self._device.to_numpy(result) if self._device.owns(result) else result


def rebuilt(like: tuple[Any, ...], parts: Iterable[Any]) -> Any:
    """A tuple, or a named one of the same type, of other parts."""
    return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)


def _write_back(staged: _HostArray, x: _HostArray) -> None:
    """Writes to an array what became of it on the device."""
    if x.flags.writeable:
        x[...] = staged
    elif staged.tobytes() != x.tobytes():
        raise LaunchError("an array that is written to is read-only; pass a writable one")


def _listed(x: Any) -> tuple[Any, ...]:
    if x is None:
        return ()
    return x if isinstance(x, tuple) else (x,)
