"""Variances along an axis in one read: how the axis is cut into sections, and launched.

The floor is reading once: through NVIDIA's OpenCL an H200 was at 0.87 to 0.95 of its copy's speed,
counting bytes read of 2^26 `float32`.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np

from portable import lang as kl
from portable.dtypes import DType, int32, int64
from portable.primitives.base.geometry import power_of_two
from portable.primitives.base.recipe import Recipe
from portable.primitives.reductions.axis import (
    Cut,
    column_strips,
    cut,
    lanes_for,
    launch_by_workgroup,
    lies_crosswise,
)
from portable.primitives.reductions.kernels import Spread, SpreadOfParts
from portable.primitives.reductions.merging import Merge
from portable.primitives.reductions.tuning import moments_for

_GROUP: Final = 256


def variance(recipe: Recipe, x: Any, kind: DType, divisor: Any, root: bool) -> Any:
    """Variances along the last axis, or deviations if `root`, computed in `kind`.

    One dimension, in C order of the other axes.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    x : Storage
        An array of it, not empty.
    kind : DType
        In which to compute.
    divisor : number
        What squared deviations are divided by.
    root : bool
        Whether deviations are wanted.
    """
    position = int32 if x.shape[-1] < 2**31 else int64
    out = recipe.empty((*x.shape[:-1], 1), x.dtype)
    crosswise = lies_crosswise(x)
    merge = Merge(kl.add, kind, 0, lanes=lanes_for(x, kind, -2 if crosswise else -1))
    how, arrays = cut(x, merge.lanes, rounds=True), (x,)
    fold = Spread(merge, position, root)
    if crosswise or how.sections > 1:
        *moments, section = _of_sections(recipe, x, fold)
        how, arrays = _whole(moments[0]), (*moments, np.int64(x.shape[-1]))
        fold = SpreadOfParts(merge, position, root, section)
    launch_by_workgroup(recipe, arrays, (None, out, divisor), fold, how)
    return out.viewed((out.size,), (out.dtype.itemsize,))


def _of_sections(recipe: Recipe, x: Any, fold: Spread) -> tuple[Any, Any, int]:
    """Means and squared deviations of sections of the last axis, and how long these are."""
    if lies_crosswise(x):
        columns = column_strips(x, fold.lanes, moments_for(x.device.capabilities))
        made = _two_empty(recipe, x, columns.sections, fold)
        columns.launch(recipe, x, made, fold)
        return *made, columns.section
    how = cut(x, fold.lanes, rounds=True)
    made = _two_empty(recipe, x, how.sections, fold)
    launch_by_workgroup(recipe, (x,), (*made, None), fold, how)
    return *made, how.section


def _two_empty(recipe: Recipe, x: Any, sections: int, fold: Spread) -> tuple[Any, Any]:
    shape, kind = (*x.shape[:-1], sections), fold.merge.kind
    return recipe.empty(shape, kind), recipe.empty(shape, kind)


def _whole(x: Any) -> Cut:
    """Rows in one section each, whatever their length."""
    capabilities = x.device.capabilities
    rows, length = prod(x.shape[:-1]), x.shape[-1]
    group = 1 if capabilities.lone_work_items else min(_GROUP, capabilities.max_workgroup)
    width = min(group, power_of_two(length))
    tall = group // width
    return Cut(width, tall, power_of_two(length), 1, -(-rows // tall))
