"""The sorting functions of the Array API."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from portable.array.base.geometry import normalized_axis
from portable.array.base.recipe import Plans, Recipe
from portable.array.engine import check_operands
from portable.array.manipulation import contiguous, moveaxis
from portable.array.sorts.merge_sorting import RUN, merge_sorted
from portable.array.sorts.radix_passes import digits_of
from portable.array.sorts.radix_sorting import radix_sorted
from portable.array.sorts.sweep_sorting import can_sweep, sweep_sorted
from portable.dtypes import int64

if TYPE_CHECKING:
    from portable.array.array import Array

__all__ = ["argsort", "ordered", "sort"]

# Elements of a row for each digit up to which merging costs less.
_FEW_ALONE: Final = 8
_FEW_TOGETHER: Final = 10
# Elements in all up to which launches decide, of which merging takes several beyond a run.
_LITTLE: Final = 1 << 16


def _write_sort(x: Any, descending: bool, values: bool, order: bool) -> Callable[[Any], Any]:
    """What sorting the last axis of arrays like `x` takes."""
    recipe = Recipe(x)
    if not x.size:
        found = recipe.empty(x.shape, x.dtype), recipe.empty(x.shape, int64)
    else:
        found = _method_for(x)(recipe, x, descending, values=values, order=order)
    return recipe.finish(
        *[array for array, wanted in zip(found, (values, order), strict=True) if wanted]
    )


def _method_for(x: Any) -> Callable[..., tuple[Any, Any]]:
    """How the rows of `x` are sorted: where work-items have caches and long loops, each its own."""
    length = x.shape[-1]
    per_digit = length // digits_of(x.dtype)
    if x.device.capabilities.lone_work_items:
        return radix_sorted if per_digit >= _FEW_ALONE else merge_sorted
    together = per_digit >= _FEW_TOGETHER or (x.size <= _LITTLE and length > RUN)
    return sweep_sorted if together and can_sweep(x) else merge_sorted


_sorted: Final = Plans(_write_sort)


def ordered(x: Any, descending: bool) -> tuple[Any, Any]:
    """The last axis sorted, and where its elements were; equal elements keep their order."""
    return _sorted(x, descending, True, True)  # type: ignore[no-any-return]


def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
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
    short ones by merging: the modules of `portable.array.sorts` say how, and after whom.
    """
    check_operands("sort", (x,))
    return _along(x, axis, descending, True)


def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
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
    short ones by merging: the modules of `portable.array.sorts` say how, and after whom.
    """
    check_operands("argsort", (x,))
    return _along(x, axis, descending, False)


def _along(x: Array, axis: int, descending: bool, values: bool) -> Array:
    place = normalized_axis(axis, x.ndim)
    if place == x.ndim - 1:
        return _sorted(x, bool(descending), values, not values)  # type: ignore[no-any-return]
    found = _sorted(moveaxis(x, place, -1), bool(descending), values, not values)
    return contiguous(moveaxis(found, -1, place))
