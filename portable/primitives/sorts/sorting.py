"""Which way of sorting suits an array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from portable.dtypes import int64
from portable.primitives.base.recipe import Plans, Recipe
from portable.primitives.sorts.bucket_sorting import bucket_sorted
from portable.primitives.sorts.merge_sorting import RUN, merge_sorted
from portable.primitives.sorts.radix_passes import digits_of
from portable.primitives.sorts.sweep_sorting import can_sweep, sweep_sorted

__all__ = ["method_for", "sorted_along_last"]

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
        found = method_for(x)(recipe, x, descending, values=values, order=order)
    return recipe.finish(
        *[array for array, wanted in zip(found, (values, order), strict=True) if wanted]
    )


def method_for(x: Any) -> Callable[..., tuple[Any, Any]]:
    """How the rows of `x` are sorted: where work-items have caches and long loops, each its own."""
    length = x.shape[-1]
    per_digit = length // digits_of(x.dtype)
    if x.device.capabilities.lone_work_items:
        return bucket_sorted if per_digit >= _FEW_ALONE else merge_sorted
    together = per_digit >= _FEW_TOGETHER or (x.size <= _LITTLE and length > RUN)
    return sweep_sorted if together and can_sweep(x) else merge_sorted


sorted_along_last: Final = Plans(_write_sort)
"""An array's last axis sorted, by `descending`, and whether values and their order are wanted."""
