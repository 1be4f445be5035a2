"""The passes over memory of a transform, written down as launches.

The floor of a pass is a copy. Through NVIDIA's OpenCL an H200 did 16384 rows of 1024 numbers at
0.98 of cuFFT's speed, which is 0.9 of its copy's; of 1024 reals at 0.92 (`float32`) and 0.94
(`float64`). Rows that local memory cannot hold take two passes or three: one of 2^22 numbers was
at 0.76 (`complex64`) and 1.06 (`complex128`).
"""

from __future__ import annotations

from math import prod
from typing import Any

from portable.array.fourier.pass_options import Pass, PassOptions, lies_across, with_few_dimensions
from portable.array.fourier.vectors import launch_in_vectors, parts_in_vectors
from portable.array.fourier.workgroup_passes import launch_by_workgroups, parts_by_workgroups
from portable.dtypes import DType
from portable.primitives.base.recipe import Recipe

__all__ = ["is_one_pass", "rows_beside_each_other", "transform"]


def transform(recipe: Recipe, x: Any, out: Any, n: int, kind: DType, options: PassOptions) -> None:
    """The transform of `n` numbers along the last axis of `x` into that of `out`.

    A line too long for one pass is cut as in D. H. Bailey, "FFTs in external or hierarchical
    memory", Journal of Supercomputing 4 (1990).

    Parameters
    ----------
    recipe : Recipe
        What gets the launches.
    x, out : Storage
        Of the same shape but for the last axis.
    n : int
        Length, all of whose prime factors have a butterfly.
    kind : DType
        The complex type to compute in.
    options : PassOptions
        What else is to be done.
    """
    together = not x.device.capabilities.lone_work_items
    launch = launch_by_workgroups if together else launch_in_vectors
    parts = _parts(x, out, n, kind)
    inner = _rows_side_by_side(x, out)
    if len(parts) == 1:
        launch(recipe, x, out, Pass(n, 1, 1, inner, False, options), kind)
        return
    rows = prod(x.shape[:-1])
    source, now, done, left = x, options.first(), 1, n
    for part in parts[:-1]:
        # What earlier passes found tells rows apart; each row is transformed by the rest.
        held = _rows_like(recipe.empty((rows * n,), kind), rows // inner * done, inner, left)
        left //= part
        launch(recipe, source, held, Pass(part, left, left, inner, True, now), kind)
        done *= part
        source, now = _rows_like(held, rows // inner * done, inner, left), PassOptions()
    source = _by_first_part(held, rows // inner, inner, parts)
    launch(recipe, source, out, Pass(left, 1, done, inner, False, options.last()), kind)


def is_one_pass(x: Any, out: Any, n: int, kind: DType) -> bool:
    """Whether `transform` takes one pass over memory.

    Parameters
    ----------
    x : Storage
        Lines along its last axis.
    out : Storage
        Where they go.
    n : int
        Elements of a line.
    kind : DType
        Of the complex numbers, or of their parts.
    """
    return len(_parts(x, out, n, kind)) == 1


def rows_beside_each_other(recipe: Recipe, x: Any, n: int, kind: DType) -> Any:
    """A new array of rows of `n` that lie as those of another do, in one dimension but the last.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    x : Storage
        Lines along its last axis.
    n : int
        Elements of a line.
    kind : DType
        Of the complex numbers, or of their parts.
    """
    rows = prod(x.shape[:-1])
    inner = _rows_side_by_side(x, x)
    return _rows_like(recipe.empty((rows * n,), kind), rows // inner, inner, n)


def _parts(x: Any, out: Any, n: int, kind: DType) -> tuple[int, ...]:
    together = not x.device.capabilities.lone_work_items
    return (parts_by_workgroups if together else parts_in_vectors)(x, out, n, kind)


def _rows_side_by_side(x: Any, out: Any) -> int:
    """How many rows lie side by side, element by element, in one of two arrays; 1 for none."""
    return next((int(y.shape[-2]) for y in (out, x) if lies_across(y)), 1)


def _rows_like(held: Any, outer: int, inner: int, length: int) -> Any:
    """A view as rows of a length, `inner` of them side by side."""
    size = held.dtype.itemsize
    strides = (inner * length * size, size, inner * size)
    return with_few_dimensions(held.viewed((outer, inner, length), strides))


def _by_first_part(held: Any, outer: int, inner: int, parts: tuple[int, ...]) -> Any:
    """The last pass's lines in the order of its results, in which the first part is fastest."""
    n = prod(parts)
    steps, left = [], n * inner * held.dtype.itemsize
    for part in parts[:-1]:
        left //= part
        steps.append(left)
    shape = (outer, *parts[-2::-1], inner, parts[-1])
    size = held.dtype.itemsize
    strides = (n * inner * size, *steps[::-1], size, inner * size)
    return with_few_dimensions(held.viewed(shape, strides))
