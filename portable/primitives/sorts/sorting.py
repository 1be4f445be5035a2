"""Which way of sorting suits an array."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

from portable.dtypes import int64
from portable.primitives.base.recipe import Plans, Recipe
from portable.primitives.sorts.bucket_sorting import bucket_sorted
from portable.primitives.sorts.keys import in_words, order_of
from portable.primitives.sorts.lines import Line
from portable.primitives.sorts.sorting_kernels import sort_by_rank
from portable.primitives.sorts.sweep_sorting import can_sweep, sweep_sorted
from portable.tune.ways import Way, Ways

_GROUP: Final = 64
_ROW: Final = 128
"""Elements of a row for a work-item that is alone: all of them."""


def rank_sorted(
    recipe: Recipe, x: Any, descending: bool, *, values: bool, order: bool
) -> tuple[Any, Any]:
    """The last axis of `x` sorted, and where its elements were; what is not asked for is None.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    x : Storage
        An array of it, not empty.
    descending : bool
        Whether the greatest come first.
    values, order : bool
        Whether the elements in order, and where they were, are wanted.
    """
    out = recipe.empty(x.shape, x.dtype) if values else None
    places = recipe.empty(x.shape, int64) if order else None
    arrays = in_words(x), Line(in_words(out), places)
    keys = order_of(x.dtype, descending)
    each = _ROW if x.device.capabilities.single_work_items else 1
    items = prod(x.shape[:-1]) * -(-x.shape[-1] // each)
    recipe.launch(sort_by_rank, items, _GROUP, *arrays, EACH=each, ORDER=keys)
    return out, places


# Elements of a row from which on digits cost less than ranks; buckets of real numbers do earlier.
_MANY: Final = 48
_MANY_ALONE: Final = 32


def _write_sort(x: Any, descending: bool, values: bool, order: bool) -> Callable[[Any], Any]:
    """What sorting the last axis of arrays like `x` takes."""
    recipe = Recipe(x)
    if not x.size:
        ordered = recipe.empty(x.shape, x.dtype), recipe.empty(x.shape, int64)
    else:
        ordered = method_for(x)(recipe, x, descending, values=values, order=order)
    return recipe.finish(
        *[array for array, wanted in zip(ordered, (values, order), strict=True) if wanted]
    )


def method_for(x: Any) -> Callable[..., tuple[Any, Any]]:
    """How the rows of `x` are sorted."""
    return SORTS.first(x)


def _is_short(x: Any) -> bool:
    few = x.device.capabilities.single_work_items and not x.dtype.is_complex
    return bool(x.shape[-1] < (_MANY_ALONE if few else _MANY))


def _sweeps(x: Any) -> bool:
    return not x.device.capabilities.single_work_items and can_sweep(x)


SORTS: Final = Ways[Any, Callable[..., tuple[Any, Any]]](
    "sort",
    Way("by rank", "sort_by_rank", lambda _: iter((rank_sorted,)), _is_short),
    Way(
        "in sweeps",
        "sort_by_workgroup count_by_workgroup place_by_workgroup",
        lambda _: iter((sweep_sorted,)),
        _sweeps,
    ),
    Way(
        "by buckets",
        "draw_samples divide count_buckets place_in_buckets sort_parts",
        lambda _: iter((bucket_sorted,)),
    ),
)
"""How rows are sorted: where work-items have caches and long loops, each its own."""


sorted_along_last: Final = Plans(_write_sort)
"""An array's last axis sorted, by `descending`, and whether values and their order are wanted."""
