"""The sorting functions of the Array API."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from portable.array.engine import check_operands
from portable.array.geometry import normalized_axis
from portable.array.manipulation import contiguous, moveaxis
from portable.array.merge_sorting import merge_sorted
from portable.array.radix_sorting import digits_of, radix_sorted
from portable.array.recipe import Plans, Recipe
from portable.dtypes import int64

if TYPE_CHECKING:
    from portable.array.array import Array

__all__ = ["argsort", "ordered", "sort"]

# Elements of a row for each digit from which on counting digits costs less than merging.
_FEW: Final = 8


def _write_sort(x: Any, descending: bool, values: bool, order: bool) -> Callable[[Any], Any]:
    """What sorting the last axis of arrays like `x` takes.

    Where each work-item has a cache and long loops of its own digits are sorted, else runs merged.
    """
    recipe = Recipe(x)
    if not x.size:
        found = recipe.empty(x.shape, x.dtype), recipe.empty(x.shape, int64)
    else:
        by_digits = x.shape[-1] > _FEW * digits_of(x.dtype)
        cpu = x.device.capabilities.kind == "cpu"
        method = radix_sorted if cpu and by_digits else merge_sorted
        found = method(recipe, x, descending, values=values, order=order)
    return recipe.finish(
        *[array for array, wanted in zip(found, (values, order), strict=True) if wanted]
    )


_sorted: Final = Plans(_write_sort)


def ordered(x: Any, descending: bool) -> tuple[Any, Any]:
    """The last axis sorted, and where its elements were; equal elements keep their order."""
    return _sorted(x, descending, True, True)  # type: ignore[no-any-return]


def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The elements along an axis in order; always stable. NaN counts as greatest."""
    check_operands("sort", (x,))
    return _along(x, axis, descending, True)


def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The positions by which `sort` orders the elements along an axis; always stable."""
    check_operands("argsort", (x,))
    return _along(x, axis, descending, False)


def _along(x: Array, axis: int, descending: bool, values: bool) -> Array:
    place = normalized_axis(axis, x.ndim)
    if place == x.ndim - 1:
        return _sorted(x, bool(descending), values, not values)  # type: ignore[no-any-return]
    found = _sorted(moveaxis(x, place, -1), bool(descending), values, not values)
    return contiguous(moveaxis(found, -1, place))
