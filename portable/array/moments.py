"""Variances along axes in one read: how the axes are cut into sections, and launched.

The floor is reading once: through NVIDIA's OpenCL an H200 was at 0.87 to 0.95 of its copy's speed,
counting bytes read of 2^26 `float32`.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

from portable.array.axis import (
    column_sections,
    cut,
    grouped,
    lanes_for,
    lies_crosswise,
    power_of_two,
)
from portable.array.moment_kernels import moments_of_columns, moments_together, variances
from portable.array.recipe import Recipe
from portable.dtypes import DType

__all__ = ["variance"]

_GROUP: Final = 256
_COLUMN_GROUP: Final = 64


def variance(
    recipe: Recipe, x: Any, axes: tuple[int, ...], kind: DType, divisor: Any, root: bool
) -> Any | None:
    """Variances, or deviations if `root`, computed in `kind`; one dimension, in C order.

    None where the axes are not one in memory, or lie crosswise on a CPU, which would then read
    vectors from a page each.
    """
    kept = [a for a in range(x.ndim) if a not in axes]
    array, lead = grouped(x, kept, list(axes))
    cpu = x.device.capabilities.kind == "cpu"
    if array.ndim != lead + 1 or (cpu and lies_crosswise(array)):
        return None
    rows, length = prod(array.shape[:-1]), array.shape[-1]
    means, squares, section = _moments(recipe, array, kind)
    sections = means.shape[-1]
    flat = [
        m.viewed((rows, sections), (sections * kind.itemsize, kind.itemsize))
        for m in (means, squares)
    ]
    out = recipe.empty((rows,), x.dtype)
    group = 1 if cpu else min(_GROUP, x.device.capabilities.max_workgroup)
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


def _moments(recipe: Recipe, x: Any, kind: DType) -> tuple[Any, Any, int]:
    """Means and squared deviations of sections of the last axis, and how long these are."""
    crosswise = lies_crosswise(x)
    lanes = lanes_for(x, kind, -2 if crosswise else -1)
    if crosswise:
        vectors = -(-prod(x.shape[:-1]) // lanes)
        section = column_sections(x, vectors)
        sections = -(-x.shape[-1] // section)
    else:
        how = cut(x, lanes)
        section, sections = how.section, how.sections
    means, squares = (recipe.empty((*x.shape[:-1], sections), kind) for _ in range(2))
    constants = {"KIND": kind, "LANES": lanes, "SECTION": section}
    if crosswise:
        recipe.launch(
            moments_of_columns, vectors * sections, _COLUMN_GROUP, x, means, squares, **constants
        )
    else:
        recipe.launch(
            moments_together,
            how.groups * how.items,
            how.items,
            x,
            means,
            squares,
            WIDTH=how.width,
            TALL=how.tall,
            **constants,
        )
    return means, squares, section
