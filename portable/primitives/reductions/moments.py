"""Variances along an axis in one read: how the axis is cut into sections, and launched.

The floor is reading once: through NVIDIA's OpenCL an H200 was at 0.87 to 0.95 of its copy's speed,
counting bytes read of 2^26 `float32`.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

from portable import lang as kl
from portable.dtypes import DType
from portable.primitives.base.geometry import power_of_two
from portable.primitives.base.recipe import Recipe
from portable.primitives.reductions.axis import (
    column_strips,
    cut,
    lanes_for,
    lies_crosswise,
)
from portable.primitives.reductions.merging import Merge
from portable.primitives.reductions.moment_kernels import (
    moments_by_workgroup,
    moments_of_columns,
    variances,
)
from portable.primitives.reductions.tuning import moments_for

__all__ = ["variance"]

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
    rows, length = prod(x.shape[:-1]), x.shape[-1]
    out = recipe.empty((rows,), x.dtype)
    lanes = lanes_for(x, kind, -1)
    if not lies_crosswise(x) and cut(x, lanes).sections == 1:
        made = (None, out)
        _moments_of_rows(recipe, x, made, _in_lanes(kind, lanes), divisor, ROOT=root)
        return out
    means, squares, section = _moments(recipe, x, kind)
    sections = means.shape[-1]
    flat = [
        m.viewed((rows, sections), (sections * kind.itemsize, kind.itemsize))
        for m in (means, squares)
    ]
    capabilities = x.device.capabilities
    group = 1 if capabilities.lone_work_items else min(_GROUP, capabilities.max_workgroup)
    width = min(group, power_of_two(sections))
    tall = group // width
    recipe.launch(
        variances,
        -(-rows // tall) * group,
        group,
        *flat,
        length,
        divisor,
        out,
        KIND=kind,
        WIDTH=width,
        TALL=tall,
        SECTION=section,
        ROOT=root,
    )
    return out


def _in_lanes(kind: DType, lanes: int) -> Merge:
    return Merge(kl.add, kind, 0, lanes=lanes)


def _moments(recipe: Recipe, x: Any, kind: DType) -> tuple[Any, Any, int]:
    """Means and squared deviations of sections of the last axis, and how long these are."""
    crosswise = lies_crosswise(x)
    merge = _in_lanes(kind, lanes_for(x, kind, -2 if crosswise else -1))
    if crosswise:
        return _moments_of_columns(recipe, x, merge)
    how = cut(x, merge.lanes)
    made = _two_empty(recipe, (*x.shape[:-1], how.sections), kind)
    _moments_of_rows(recipe, x, made, merge, None)
    return *made, how.section


def _moments_of_rows(
    recipe: Recipe, x: Any, made: tuple[Any, Any], merge: Merge, divisor: Any, **constants: Any
) -> None:
    how = cut(x, merge.lanes)
    given = *made, divisor
    constants = {"MERGE": merge, **how.constants(), **constants}
    recipe.launch(moments_by_workgroup, how.groups * how.items, how.items, x, *given, **constants)


def _two_empty(recipe: Recipe, shape: tuple[int, ...], kind: DType) -> tuple[Any, Any]:
    return recipe.empty(shape, kind), recipe.empty(shape, kind)


def _moments_of_columns(recipe: Recipe, x: Any, merge: Merge) -> tuple[Any, Any, int]:
    cut = column_strips(x, merge.lanes, moments_for(x.device.capabilities))
    made = _two_empty(recipe, (*x.shape[:-1], cut.sections), merge.kind)
    constants = {"MERGE": merge, "STRIP": cut.strip, "SECTION": cut.section}
    recipe.launch(moments_of_columns, cut.items, cut.group, x, *made, **constants)
    return *made, cut.section
