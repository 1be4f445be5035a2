"""Arrays of indices as positions in memory order, checked against the extents that they index."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

from portable.array.base.geometry import broadcast_strides
from portable.array.base.recipe import Plans, Recipe
from portable.array.moves.gather_kernels import places
from portable.backend import Device
from portable.dtypes import int32, int64
from portable.errors import BadIndexError

__all__ = ["bad_index_flag", "check_flag", "linear_positions", "positions_in"]

_GROUP: Final = 256


class _Flags(threading.local):
    """An integer of each device, zero between calls, for kernels to say that an index is bad.

    Each thread has its own: what one thread enqueues runs in order.
    """

    def __init__(self) -> None:
        self.arrays: dict[Device, Any] = {}

    def of(self, device: Device) -> Any:
        """The flag of a device."""
        found = self.arrays.get(device)
        if found is None:
            found = self.arrays[device] = _zero(device)
        return found

    def forget(self, device: Device) -> None:
        """Have a new one next time, since this one is no longer zero."""
        self.arrays.pop(device, None)


_flags: Final = _Flags()


def _zero(device: Device) -> Any:
    from portable.array.creation import zeros

    return zeros((1,), dtype=int32, device=device)


def bad_index_flag(device: Device) -> Any:
    """An integer of the device, zero, for kernels to say in it that an index is out of range."""
    return _flags.of(device)


def check_flag(flag: Any, indices: Sequence[Any], extents: Sequence[int]) -> None:
    """Waits for the device to learn what kernels have said in a flag of `bad_index_flag`.

    Raises
    ------
    BadIndexError
        If an index is out of range, saying which.
    """
    if flag.device.to_numpy(flag)[0]:
        _flags.forget(flag.device)
        raise BadIndexError(_complaint(indices, extents))


def linear_positions(
    indices: Sequence[Any], extents: Sequence[int], shape: tuple[int, ...], *, trusted: bool = False
) -> Any:
    """Where in dimensions of `extents`, counted in C order, the elements named lie.

    Waits for the device to learn whether all are in range, a copy of four bytes, unless `trusted`.

    Parameters
    ----------
    indices : sequence of Array
        One per dimension, broadcasting to `shape`; negative ones count from the end.
    extents : sequence of int
        The dimensions.
    shape : tuple of int
        What the indices broadcast to; the result has as many elements, in one dimension.
    trusted : bool
        Whether all are known to be in range.

    Raises
    ------
    BadIndexError
        If one is out of range.
    """
    flag = bad_index_flag(indices[0].device)
    found = _linear.together((*indices, flag), tuple(extents), shape)
    if not trusted and found.size:
        check_flag(flag, indices, extents)
    return found


def _write_linear(
    arrays: tuple[Any, ...], extents: tuple[int, ...], shape: tuple[int, ...]
) -> Callable[..., Any]:
    """What `linear_positions` has to do for indices like these."""
    *indices, flag = arrays
    recipe = Recipe(*arrays)
    return recipe.finish(positions_in(recipe, indices, extents, shape, flag))


def positions_in(
    recipe: Recipe,
    indices: Sequence[Any],
    extents: Sequence[int],
    shape: tuple[int, ...],
    flag: Any,
) -> Any:
    """`linear_positions` as steps of a recipe, which says in `flag` whether an index is bad."""
    if 0 in extents and 0 not in shape:
        raise BadIndexError("an index into a dimension without elements")
    out = recipe.empty((prod(shape),), int64)
    for dim, (index, extent) in enumerate(zip(indices, extents, strict=True)):
        spread = index.viewed(shape, broadcast_strides(index.shape, index.strides, shape))
        if out.size:
            numbers = spread, out, flag, int64(extent)
            recipe.launch(places, out.size, _GROUP, *numbers, FIRST=dim == 0)
    return out


_linear: Final = Plans(_write_linear)


def _complaint(indices: Sequence[Any], extents: Sequence[int]) -> str:
    """Which index is out of range; copies them to the host."""
    for index, extent in zip(indices, extents, strict=True):
        host = index.device.to_numpy(index)
        bad = host[(host >= extent) | (host < -extent)]
        if bad.size:
            return f"index {bad.flat[0]} is out of range for extent {extent}"
    return "an index is out of range"
