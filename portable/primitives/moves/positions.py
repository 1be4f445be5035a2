"""Arrays of indices checked against the extents that they index."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

from portable.backend import Device
from portable.dtypes import int64
from portable.errors import BadIndexError
from portable.primitives.base.borrowed import fetched, stored
from portable.primitives.base.recipe import Recipe
from portable.primitives.moves.index_kernels import check

_CHUNK: Final = 4096
_GROUP: Final = 256


class _Flags(threading.local):
    """An integer of each device, zero between calls, for kernels to say that an index is bad.

    Each thread has its own: what one thread enqueues runs in order.
    """

    def __init__(self) -> None:
        self.arrays: dict[Device, Any] = {}

    def of(self, device: Device) -> Any:
        """The flag of a device."""
        flag = self.arrays.get(device)
        if flag is None:
            flag = self.arrays[device] = _zero(device)
        return flag

    def forget(self, device: Device) -> None:
        """Have a new one next time, since this one is no longer zero."""
        self.arrays.pop(device, None)


_flags: Final = _Flags()


def _zero(device: Device) -> Any:
    return stored(device, device.from_numpy(np.zeros(1, np.int32)))


def bad_index_flag(device: Device) -> Any:
    """An integer of the device, zero, for kernels to say in it that an index is out of range."""
    return _flags.of(device)


def check_flag(flag: Any, indices: Sequence[Any], extents: Sequence[int]) -> None:
    """Waits for the device to learn what kernels have said in a flag of `bad_index_flag`.

    Parameters
    ----------
    flag : Storage
        What kernels said.
    indices : sequence of Storage
        The arrays that they looked at.
    extents : sequence of int
        The dimensions that these are for.

    Raises
    ------
    BadIndexError
        If an index is out of range, saying which.
    """
    if fetched(flag)[0]:
        _flags.forget(flag.device)
        raise BadIndexError(_first_complaint(indices, extents))


def check_in(recipe: Recipe, indices: Sequence[Any], extents: Sequence[int], flag: Any) -> None:
    """A step of a recipe that says in `flag` whether one of the indices, of one shape, is bad.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    indices : sequence of Array
        One per dimension; negative ones count from the end.
    extents : sequence of int
        The dimensions.
    flag : Array
        What `bad_index_flag` gives.
    """
    size = prod(indices[0].shape)
    if not size:
        return
    if 0 in extents:
        raise BadIndexError("an index into a dimension without elements")
    chunk, group = (_CHUNK, 1) if flag.device.capabilities.lone_work_items else (1, _GROUP)
    limits = tuple(int64.numpy.type(n) for n in extents)
    recipe.launch(check, -(-size // chunk), group, tuple(indices), flag, limits, CHUNK=chunk)


def complaint(index: np.ndarray[Any, Any], extent: int) -> str:
    """Which of the integers of an index on the host is out of range; empty if none is."""
    if not index.size or (index.max() < extent and index.min() >= -extent):
        return ""
    bad = index[(index >= extent) | (index < -extent)]
    return f"index {bad[0]} is out of range for extent {extent}"


def _first_complaint(indices: Sequence[Any], extents: Sequence[int]) -> str:
    """Which index is out of range; copies them to the host."""
    for index, extent in zip(indices, extents, strict=True):
        complaint_here = complaint(fetched(index), extent)
        if complaint_here:
            return complaint_here
    return "an index is out of range"
