"""Transforms along one axis of an array."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from portable.array.fourier.access import MIRRORED
from portable.array.fourier.chirp import transform_of_any_length
from portable.array.fourier.even_reals import transform_from_real, transform_to_real
from portable.array.fourier.pass_options import PassOptions, with_few_dimensions
from portable.array.fourier.row_pairs import pairs_from_real, pairs_to_real, rows_pair_up
from portable.dtypes import DType, complex64, complex128, float32, float64
from portable.primitives.base.recipe import Plans, Recipe

__all__ = ["COMPLEX", "COMPLEX_OF", "FROM_REAL", "TO_REAL", "extent_of", "transformed"]

COMPLEX: Final = "complex"
"""Transforms of all numbers."""
FROM_REAL: Final = "from real"
"""Transforms of real numbers into half of a Hermitian row."""
TO_REAL: Final = "to real"
"""Transforms of half of a Hermitian row into real numbers."""

COMPLEX_OF: Final = {
    float32: complex64,
    complex64: complex64,
    float64: complex128,
    complex128: complex128,
}
"""The type to compute in, for each that can be transformed."""


def extent_of(form: str, n: int) -> int:
    """How long the axis is after a transform of length `n`."""
    return n // 2 + 1 if form == FROM_REAL else n


def _written(x: Any, form: str, n: int, axis: int, inverse: bool, scale: float) -> Any:
    """How to transform arrays like this one."""
    kind = COMPLEX_OF[x.dtype]
    extent = extent_of(form, n)
    recipe = Recipe(x)
    shape = (*x.shape[:axis], extent, *x.shape[axis + 1 :])
    out = recipe.empty(shape, kind.real if form == TO_REAL else kind)
    source = _as_rows(x, axis, n // 2 + 1 if form == TO_REAL else n)
    options = PassOptions(inverse, conjugate_after=inverse, scale=scale)
    if form == TO_REAL and n % 2:
        options = replace(options, real=MIRRORED, length=n)
    target = _as_rows(out, axis, extent)
    way = _way(form, n, source if form == FROM_REAL else target, kind)
    way(recipe, source, target, n, kind, options)
    return recipe.finish(out)


def _way(form: str, n: int, real: Any, kind: DType) -> Callable[..., None]:
    """Which transform of rows it is; `real` has the real ones unless all are complex."""
    if form != COMPLEX and n % 2 == 0:
        return transform_from_real if form == FROM_REAL else transform_to_real
    if form != COMPLEX and rows_pair_up(real, n, kind):
        return pairs_from_real if form == FROM_REAL else pairs_to_real
    return transform_of_any_length


def _as_rows(x: Any, axis: int, most: int) -> Any:
    """The axis last and no longer than `most`, the others before it, as few as possible."""
    order = [*(a for a in range(x.ndim) if a != axis), axis]
    shape, strides = [x.shape[a] for a in order], [x.strides[a] for a in order]
    shape[-1] = min(shape[-1], most)
    return with_few_dimensions(x.viewed(tuple(shape), tuple(strides)))


transformed = Plans(_written)
"""Of an array along an axis.

Called with the array, which is not empty; `COMPLEX`, `FROM_REAL` or `TO_REAL`; the length; the
axis; whether the exponent's sign is plus; and what to multiply by.
"""
