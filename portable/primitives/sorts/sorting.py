"""Which way of sorting suits an array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from portable.dtypes import int64
from portable.primitives.base.recipe import Plans, Recipe
from portable.primitives.sorts.bucket_sorting import bucket_sorted
from portable.primitives.sorts.radix_passes import digits_of
from portable.primitives.sorts.rank_sorting import rank_sorted
from portable.primitives.sorts.sweep_sorting import can_sweep, sweep_sorted

__all__ = ["method_for", "sorted_along_last"]

# Elements of a row from which on buckets cost less than ranks, and the same of complex numbers.
_MANY_ALONE: Final = 32
_MANY_COMPLEX: Final = 48
# Elements for each digit from which on sorting by digits costs less than by ranks.
_MANY_TOGETHER: Final = 10


def _write_sort(x: Any, descending: bool, values: bool, order: bool) -> Callable[[Any], Any]:
    """What sorting the last axis of arrays like `x` takes."""
    recipe = Recipe(x)
    if not x.size:
        found = recipe.empty(x.shape, x.dtype), recipe.empty(x.shape, int64)
    else:
        found = method_for(x)(recipe, x, descending, values=values, order=order)
    return recipe.finish(
        *[array for array, wanted in zip(found, (values, order), strict=True) if wanted]
    )


def method_for(x: Any) -> Callable[..., tuple[Any, Any]]:
    """How the rows of `x` are sorted: where work-items have caches and long loops, each its own."""
    length = x.shape[-1]
    if x.device.capabilities.lone_work_items:
        many = _MANY_COMPLEX if x.dtype.is_complex else _MANY_ALONE
        return bucket_sorted if length >= many else rank_sorted
    if length < _MANY_TOGETHER * digits_of(x.dtype):
        return rank_sorted
    return sweep_sorted if can_sweep(x) else bucket_sorted


sorted_along_last: Final = Plans(_write_sort)
"""An array's last axis sorted, by `descending`, and whether values and their order are wanted."""
