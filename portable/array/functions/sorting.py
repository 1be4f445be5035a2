"""The sorting functions of the Array API."""

from __future__ import annotations

from typing import Any

from portable.array.base.engine import ArrayT
from portable.array.functions.manipulation import contiguous, moveaxis
from portable.primitives.base.geometry import normalized_axis
from portable.primitives.maps.engine import check_operands
from portable.primitives.sorts.sorting import sorted_along_last
from portable.recording import told


def ordered(x: Any, descending: bool) -> tuple[Any, Any]:
    """The last axis sorted, and where its elements were; equal elements keep their order."""
    return sorted_along_last(x, descending, True, True)  # type: ignore[no-any-return]


@told
def sort(x: ArrayT, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> ArrayT:
    """The elements along an axis in order.

    Parameters
    ----------
    x : Array
        Bools and numbers; complex ones are in the order of their real parts, then of the imaginary.
    axis : int
        Along which to sort.
    descending : bool
        Whether the greatest element comes first; equal elements keep their order then too.
    stable : bool
        Taken for the standard's sake: sorting is always stable.

    Returns
    -------
    Array
        Of the shape and dtype of `x`.

    Notes
    -----
    NaN counts as greatest, zeros of either sign as equal. Long rows are ordered by their digits,
    short ones by merging: the modules of `portable.primitives.sorts` say how, and after whom.
    """
    check_operands("sort", (x,))
    return _along(x, axis, descending, True)


def argsort(
    x: ArrayT, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> ArrayT:
    """The positions by which `sort` orders the elements along an axis.

    Parameters
    ----------
    x : Array
        Bools and numbers; complex ones are in the order of their real parts, then of the imaginary.
    axis : int
        Along which to sort.
    descending : bool
        Whether the greatest element comes first; equal elements keep their order then too.
    stable : bool
        Taken for the standard's sake: sorting is always stable.

    Returns
    -------
    Array
        Of `int64` and the shape of `x`.

    Notes
    -----
    NaN counts as greatest, zeros of either sign as equal. Long rows are ordered by their digits,
    short ones by merging: the modules of `portable.primitives.sorts` say how, and after whom.
    """
    check_operands("argsort", (x,))
    return _along(x, axis, descending, False)


def _along(x: ArrayT, axis: int, descending: bool, values: bool) -> ArrayT:
    dim = normalized_axis(axis, x.ndim)
    if dim == x.ndim - 1:
        return sorted_along_last(x, bool(descending), values, not values)  # type: ignore[no-any-return]
    result: ArrayT = sorted_along_last(moveaxis(x, dim, -1), bool(descending), values, not values)
    return contiguous(moveaxis(result, -1, dim))
