"""Sorting by merging: runs sorted by insertion, merged pairwise, a pass for each doubling."""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np

from portable.dtypes import int64
from portable.primitives.base.recipe import Recipe
from portable.primitives.sorts.lines import Line
from portable.primitives.sorts.sorting_kernels import merge_runs, sort_runs

__all__ = ["RUN", "merge_sorted"]

RUN: Final = 16
"""Elements of a row that GPUs sort without merging."""
# Longer than any row that is sorted so where work-items are alone: one launch does all.
_RUN_ALONE: Final = 128
_PIECE: Final = 16
_GROUP: Final = 64


def merge_sorted(
    recipe: Recipe, x: Any, descending: bool, *, values: bool, order: bool
) -> tuple[Any, Any]:
    """The last axis of `x` sorted, and where its elements were; None for `order` if not wanted.

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
    length, rows = x.shape[-1], prod(x.shape[:-1])
    kind = "i" if x.dtype.is_integer else x.dtype.kind
    constants = {"KIND": kind, "DESCENDING": descending}
    run = _RUN_ALONE if x.device.capabilities.lone_work_items else RUN
    now = _new(recipe, x, order)
    items = rows * -(-length // run)
    recipe.launch(sort_runs, items, _GROUP, x, now, RUN=run, **constants)
    spare = _new(recipe, x, order) if run < length else Line(None, None)
    while run < length:
        items = rows * -(-length // _PIECE)
        numbers = np.int64(run), np.int64(_PIECE)
        recipe.launch(merge_runs, items, _GROUP, now, spare, *numbers, **constants)
        now, spare = spare, now
        run *= 2
    return (now.elements if values else None), now.places


def _new(recipe: Recipe, x: Any, order: bool) -> Line:
    """Arrays for the elements of `x` and, if wanted, their positions."""
    places = recipe.empty(x.shape, int64) if order else None
    return Line(recipe.empty(x.shape, x.dtype), places)
