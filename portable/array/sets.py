"""The set functions of the Array API; all wait for the device to learn the result's shape."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from portable.array.array import Array
from portable.array.functions.manipulation import reshape
from portable.array.functions.sorting import ordered, sort
from portable.dtypes import int64
from portable.primitives.maps.engine import check_operands
from portable.primitives.sorts.distinct import Distinct, Wanted, distinct_of

__all__ = ["unique_all", "unique_counts", "unique_inverse", "unique_values"]


class UniqueAll(NamedTuple):
    """Distinct elements, where each first stands, which of them each element is, how often."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """Distinct elements in order, and how often each occurs."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """Distinct elements in order, and which of them each element is."""

    values: Array
    inverse_indices: Array


def _found(name: str, x: Any, **wanted: bool) -> Distinct:
    check_operands(name, (x,))
    line, order = x if x.ndim == 1 else reshape(x, (-1,)), None
    if not line.size:
        empty = x.device.empty((0,), int64)
        return Distinct(x.device.empty((0,), x.dtype), empty, reshape(empty, x.shape), empty)
    if "firsts" in wanted or "inverse" in wanted:
        line, order = ordered(line, descending=False)
    else:
        line = sort(line)
    found = distinct_of(line, order, Wanted(**wanted))
    if x.ndim != 1 and found.inverse is not None:
        return replace(found, inverse=reshape(found.inverse, x.shape))
    return found


def unique_values(x: Array, /) -> Array:
    """The distinct elements.

    NaN are not equal to one another, zeros of either sign are. Waits for the device.

    Parameters
    ----------
    x : Array
        Any shape and dtype.

    Returns
    -------
    Array
        In ascending order, in one dimension.
    """
    return _found("unique_values", x).values  # type: ignore[no-any-return]


def unique_counts(x: Array, /) -> UniqueCounts:
    """The distinct elements, and how often each occurs.

    NaN are not equal to one another, zeros of either sign are. Waits for the device.

    Parameters
    ----------
    x : Array
        Any shape and dtype.

    Returns
    -------
    values : Array
        The distinct elements in ascending order, in one dimension.
    counts : Array
        How often each occurs; `int64`.
    """
    found = _found("unique_counts", x, sizes=True)
    return UniqueCounts(found.values, found.sizes)


def unique_inverse(x: Array, /) -> UniqueInverse:
    """The distinct elements, and which of them each element is.

    NaN are not equal to one another, zeros of either sign are. Waits for the device.

    Parameters
    ----------
    x : Array
        Any shape and dtype.

    Returns
    -------
    values : Array
        The distinct elements in ascending order, in one dimension.
    inverse_indices : Array
        Which of them each element of `x` is, in its shape; `int64`.
    """
    found = _found("unique_inverse", x, inverse=True)
    return UniqueInverse(found.values, found.inverse)


def unique_all(x: Array, /) -> UniqueAll:
    """The distinct elements, where each first stands, the inverse, and the counts.

    NaN are not equal to one another, zeros of either sign are. Waits for the device.

    Parameters
    ----------
    x : Array
        Any shape and dtype.

    Returns
    -------
    values : Array
        The distinct elements in ascending order, in one dimension.
    indices : Array
        Where in `x`, counted in C order, each stands first; `int64`.
    inverse_indices : Array
        Which of them each element of `x` is, in its shape; `int64`.
    counts : Array
        How often each occurs; `int64`.
    """
    found = _found("unique_all", x, firsts=True, inverse=True, sizes=True)
    return UniqueAll(found.values, found.firsts, found.inverse, found.sizes)
