"""Sorting of short rows by the rank of each element, in one launch."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from portable.dtypes import int64
from portable.primitives.base.recipe import Recipe
from portable.primitives.sorts.lines import Line
from portable.primitives.sorts.radix_passes import in_words, order_of
from portable.primitives.sorts.sorting_kernels import sort_by_rank

__all__ = ["rank_sorted"]

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
    each = _ROW if x.device.capabilities.lone_work_items else 1
    items = prod(x.shape[:-1]) * -(-x.shape[-1] // each)
    recipe.launch(sort_by_rank, items, _GROUP, *arrays, EACH=each, ORDER=keys)
    return out, places
