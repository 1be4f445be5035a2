"""Sorting along an axis."""

from __future__ import annotations

from typing import Any

from portable.namespace import device_of_arrays
from portable.primitives.base.exchange import takes_other_libraries
from portable.primitives.base.operands import normalized_axis
from portable.primitives.base.storage import Storage, released, stored
from portable.primitives.elements import Elements
from portable.primitives.mapping import transpose
from portable.primitives.moves.gathering import gathered_along
from portable.primitives.sorts.sorting import sorted_along_last


@takes_other_libraries
def sort(x: Any, *, axis: int = -1, descending: bool = False) -> Any:
    """The elements along an axis in order.

    Parameters
    ----------
    x : array
        Bools and numbers, of any library; complex ones are in the order of their real parts, then
        of the imaginary. NaN counts as greatest, zeros of either sign as equal.
    axis : int
        Along which.
    descending : bool
        Whether the greatest comes first.

    Returns
    -------
    array
        Of the shape, dtype and library of `x`; equal elements keep their order.

    Notes
    -----
    Long rows go by digits, on GPUs as Adinets and Merrill (2022, "Onesweep") do, on processors
    within buckets as those of Axtmann et al. (2022, "Engineering in-place sorting algorithms");
    short ones by the rank of each element.
    """
    return _along(x, axis, descending, True)


@takes_other_libraries
def argsort(x: Any, *, axis: int = -1, descending: bool = False) -> Any:
    """The positions by which `sort` orders the elements along an axis, of `int64`.

    Parameters
    ----------
    x, axis, descending
        As of `sort`.

    Returns
    -------
    array
        Of the shape and library of `x`.
    """
    return _along(x, axis, descending, False)


def _along(x: Any, axis: int, descending: bool, values: bool) -> Any:
    given = stored(device_of_arrays(x), x)
    dim = normalized_axis(axis, given.ndim)
    ordered = released(
        sorted_along_last(_moved(given, dim, -1), bool(descending), values, not values)
    )
    if dim == given.ndim - 1:
        return ordered
    order = list(range(given.ndim - 1))
    order.insert(dim, given.ndim - 1)
    return transpose(ordered, order)


def _moved(x: Storage, source: int, to: int) -> Storage:
    """The view with a dimension elsewhere."""
    order = [d for d in range(x.ndim) if d != source]
    order.insert(to % x.ndim, source)
    return x.viewed(tuple(x.shape[d] for d in order), tuple(x.strides[d] for d in order))


@takes_other_libraries
def sort_by_key(keys: Any, values: Any, *, axis: int = -1, descending: bool = False) -> Any:
    """Keys sorted, and their values in the same order.

    Parameters
    ----------
    keys : array
        As `sort` takes it.
    values : array, or tuple or struct of arrays
        Of the shape of `keys` and their device.
    axis : int
        Along which to sort.
    descending : bool
        Whether the greatest key comes first.

    Returns
    -------
    keys : array
        In order; equal ones keep theirs.
    values : array, or tuple or struct of arrays
        Moved like their keys.

    Raises
    ------
    ShapeError
        If the shapes differ.
    """
    given = Elements.of("sort_by_key", values)
    Elements.of("sort_by_key", (keys, released(given.only)))
    order = stored(given.device, argsort(keys, axis=axis, descending=descending))
    dim = normalized_axis(axis, order.ndim)
    moved = [
        gathered_along(x, order, dim) if x.size else x
        for x in (stored(given.device, keys), *given.arrays)
    ]
    return released(moved[0]), Elements(tuple(moved[1:]), given.kind).given()
