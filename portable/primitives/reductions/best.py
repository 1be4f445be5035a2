"""Least and greatest elements along an axis: how the work is cut, and launched."""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.dtypes import DType, int32, int64
from portable.primitives.base.numbers import highest, lowest
from portable.primitives.base.recipe import Recipe
from portable.primitives.maps.engine import recorded
from portable.primitives.maps.operation import conversion_to
from portable.primitives.reductions.axis import (
    column_strips,
    cut,
    grouped,
    lanes_for,
    launch_by_workgroup,
    lies_crosswise,
)
from portable.primitives.reductions.best_kernels import Best, BestOfBlocks
from portable.primitives.reductions.merging import Merge
from portable.primitives.reductions.tuning import best_for

_BLOCK: Final = 8192
_LONG: Final = 64
"""Elements of a column from which on making it a row pays, and finding its best value first."""
_WIDE: Final = 4
"""Bytes of elements from which on rows are not gone through in blocks."""


def best_along_last(recipe: Recipe, x: Any, largest: bool) -> Any:
    """The positions along the last axis of the least or greatest elements; the first of equals.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    x : Storage
        An array of it, not empty.
    largest : bool
        Whether the greatest are looked for.
    """
    kind = int32 if x.shape[-1] < 2**31 else int64
    x, _ = grouped(x, list(range(x.ndim - 1)), [x.ndim - 1])
    if _pays_to_turn(x):
        x = _turned(recipe, x)
    if lies_crosswise(x):
        values, places = _columns(recipe, x, largest, kind)
    else:
        values, places = _by_workgroup(recipe, x, None, largest, kind)
    while places.shape[-1] > 1:
        values, places = _by_workgroup(recipe, values, places, largest, kind)
    return places.viewed(places.shape[:-1], places.strides[:-1])


def _pays_to_turn(x: Any) -> bool:
    """Whether columns are first made rows: for work-items alone, where columns make no vectors."""
    alone = x.device.capabilities.lone_work_items and x.shape[-1] >= _LONG
    return alone and lies_crosswise(x) and lanes_for(x, int32, -2) == 1


def _turned(recipe: Recipe, x: Any) -> Any:
    """A copy whose neighbours lie along the last axis."""
    return recorded(recipe, conversion_to(x.dtype), x)


def _new(recipe: Recipe, x: Any, sections: int) -> tuple[Any, Any]:
    """Arrays for the best value of each section, and its position."""
    shape = (*x.shape[:-1], sections)
    return recipe.empty(shape, x.dtype), recipe.empty(shape, int64)


def _by_workgroup(
    recipe: Recipe, x: Any, places: Any, largest: bool, kind_given: DType
) -> tuple[Any, Any]:
    kind, alone = x.dtype.register, x.device.capabilities.lone_work_items
    in_blocks = alone and places is None and x.shape[-1] >= _LONG and x.dtype.itemsize < _WIDE
    lanes = lanes_for(x, x.dtype if in_blocks else kind_given, -1) if places is None else 1
    how = cut(x, lanes)
    best = _new(recipe, x, how.sections)
    fold = Best(largest, kind, kind_given, lanes)
    if in_blocks:
        op, neutral = (kl.maximum, lowest) if largest else (kl.minimum, highest)
        merge = Merge(op, kind, neutral(x.dtype), lanes=lanes)
        fold = BestOfBlocks(largest, kind, kind_given, lanes, merge, _BLOCK)
    launch_by_workgroup(recipe, (x, places), best, fold, how)
    return best


def _columns(recipe: Recipe, x: Any, largest: bool, kind: DType) -> tuple[Any, Any]:
    lanes = lanes_for(x, kind, -2, meet=True)
    cut = column_strips(x, lanes, best_for(x.device.capabilities))
    best = _new(recipe, x, cut.sections)
    cut.launch(recipe, x, best, Best(largest, x.dtype.register, kind, lanes))
    return best
