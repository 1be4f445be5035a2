"""Checks on the arrays that operations are given: dtypes, shapes, overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from portable.backend import ArrayView, Device
from portable.dtypes import DType, dtype
from portable.errors import DTypeError, LaunchError, ShapeError
from portable.lang.arguments.arguments import byte_range


def common_dtype(operation: str, allowed: Sequence[DType], **arrays: Any) -> DType:
    """The one dtype that all the arrays have; those that are None do not count.

    Raises
    ------
    DTypeError
        If they differ, or it is not one of `allowed`.
    """
    kinds = {name: dtype(x.dtype) for name, x in arrays.items() if x is not None}
    first = next(iter(kinds.values()))
    if any(kind is not first for kind in kinds.values()):
        listed = ", ".join(f"{name} {kind.name}" for name, kind in kinds.items())
        raise DTypeError(f"{operation} takes arrays of one dtype, not {listed}; convert them first")
    if first not in allowed:
        names = ", ".join(kind.name for kind in allowed)
        raise DTypeError(f"{operation} takes {names}, not {first.name}")
    return first


def broadcast_shape(operation: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that shapes broadcast to.

    Raises
    ------
    ShapeError
        If they do not.
    """
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError:
        listed = " and ".join(map(str, shapes))
        raise ShapeError(f"{operation}: shapes {listed} cannot be broadcast together") from None


def broadcasts_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether an array of `shape` can stand for one of `target`."""
    try:
        return tuple(np.broadcast_shapes(shape, target)) == target
    except ValueError:
        return False


_MOST_WORK: Any = 100_000
"""How long NumPy may think about contrived strides; its stubs know of two special values alone."""


class _Shadow:
    """An array interface of the same addresses, for NumPy to reason about; never read."""

    def __init__(self, view: ArrayView) -> None:
        self.__array_interface__ = {
            "shape": view.shape,
            "typestr": view.dtype.str,
            "data": (view.address or 1, True),
            "strides": view.strides,
            "version": 3,
        }


def views_overlap(a: ArrayView, b: ArrayView) -> bool:
    """Whether two views of a device's arrays share an element; exact but for contrived strides."""
    if a.owner != b.owner or not _meet(a, b):
        return False
    blocks = _blocks_meet(a, b)
    if blocks is not None:
        return blocks
    shadows = np.asarray(_Shadow(a)), np.asarray(_Shadow(b))
    try:
        return np.shares_memory(*shadows, max_work=_MOST_WORK)
    except np.exceptions.TooHardError:
        return True


def require_apart(
    operation: str,
    device: Device,
    out: Any,
    operands: Mapping[str, Any],
    addend: tuple[str, Any] = ("", None),
    what: str = "out",
) -> None:
    """Refuses a result (`what`) that is read-only, or overlaps what it is made of.

    Parameters
    ----------
    operation : str
    device : Device
        Where all live.
    out : array
    operands : mapping of str to array or None
        What may share no element with it.
    addend : (str, array or None)
        What may do so, and does if it is the same array.
    what : str
        What `out` is called.

    Raises
    ------
    LaunchError, ShapeError
        In these two cases.
    """
    target = device.view(out)
    if not target.writable:
        raise LaunchError(f"{operation}: {what} is read-only; pass a writable array")
    for name, x in operands.items():
        if x is not None and views_overlap(target, device.view(x)):
            raise ShapeError(f"{operation}: {what} overlaps {name}; pass another array")
    name, x = addend
    if x is None or x is out:
        return
    view = device.view(x)
    if views_overlap(target, view) and not same_elements(target, view):
        raise ShapeError(
            f"{operation}: {what} overlaps {name} without being the same array; pass another array"
        )


def _blocks_meet(a: ArrayView, b: ArrayView) -> bool | None:
    """Whether two blocks of one array share an element; None unless they are such.

    NumPy thinks for milliseconds about blocks side by side, such as those of a factorisation.
    """
    ordered = [
        sorted(zip(x.strides, x.shape, strict=True), key=lambda axis: -axis[0]) for x in (a, b)
    ]
    strides = tuple(stride for stride, _ in ordered[0])
    if strides != tuple(stride for stride, _ in ordered[1]) or min(strides, default=1) <= 0:
        return None
    extents = [tuple(extent for _, extent in axes) for axes in ordered]
    itemsize = a.dtype.itemsize
    return _lattices_meet(b.address - a.address, strides, (extents[0], extents[1]), itemsize)


def _lattices_meet(
    apart: int,
    strides: tuple[int, ...],
    extents: tuple[tuple[int, ...], tuple[int, ...]],
    itemsize: int,
) -> bool | None:
    """`_blocks_meet` for strides in descending order; None where rows reach into the next ones."""
    if not strides:
        return abs(apart) < itemsize
    step, inner = strides[0], strides[1:]
    spans = [
        itemsize + sum((n - 1) * s for n, s in zip(extent[1:], inner, strict=True))
        for extent in extents
    ]
    if max(spans) > step:
        return None
    meets = False
    for rows in range(apart // step, apart // step + 2):
        if -extents[1][0] < rows < extents[0][0]:
            below = _lattices_meet(
                apart - rows * step, inner, (extents[0][1:], extents[1][1:]), itemsize
            )
            if below is None:
                return None
            meets = meets or below
    return meets


def _meet(a: ArrayView, b: ArrayView) -> bool:
    """Whether the bytes from the first to the last of each have any in common."""
    low, high = byte_range(a)
    other_low, other_high = byte_range(b)
    return (
        low < high
        and other_low < other_high
        and a.address + low < b.address + other_high
        and b.address + other_low < a.address + high
    )


def same_elements(a: ArrayView, b: ArrayView) -> bool:
    """Whether two views of a device's arrays are the same elements in the same order."""
    same_layout = (a.shape, a.strides, a.dtype) == (b.shape, b.strides, b.dtype)
    return same_layout and a.owner == b.owner and a.address == b.address
