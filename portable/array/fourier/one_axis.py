"""Transforms along one axis of an array."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from portable import lang as kl
from portable.array.fourier.access import FITTING, HALVED, MIRRORED, Source, Target
from portable.array.fourier.chirp import transform_of_any_length
from portable.array.fourier.even_reals import transform_from_real, transform_to_real
from portable.array.fourier.pass_options import PassOptions, in_words, with_few_dimensions
from portable.array.fourier.passes import is_one_pass
from portable.array.fourier.plan import is_smooth
from portable.dtypes import DType, complex64, complex128, float32, float64
from portable.lang.kernel import Kernel, kernel
from portable.primitives.base.recipe import Plans, Recipe


@kernel
def split_row_pairs(source: Source, target: Target, n: kl.Scalar) -> None:
    """Rows 2 r and 2 r + 1, doubled, whose transforms are the parts of row r that is read."""
    item = kl.global_id(0)
    many = target.extent()
    row, k = item // many, item % many
    if row < source.array.shape[0]:
        z, other = source.number((row,), k), source.number((row,), (n - k) % n)
        first = kl.complex(z.real + other.real, z.imag - other.imag)
        target.put((2 * row,), k, first)
        second = kl.complex(z.imag + other.imag, other.real - z.real)
        target.put((2 * row + 1,), k, second)


@kernel
def join_row_pairs(source: Source, target: Target, n: kl.Scalar) -> None:
    """Row r from rows 2 r and 2 r + 1 that are read, which are halves of Hermitian rows."""
    item = kl.global_id(0)
    row, k = item // n, item % n
    if row < target.array.shape[0]:
        first, second = source.number((2 * row,), k), source.number((2 * row + 1,), k)
        target.put((row,), k, kl.complex(first.real - second.imag, first.imag + second.real))


# Transforms of an odd number of reals, or into them, two rows as one of complex numbers.
#
# One row is the real part, the next one the imaginary part: W. H. Press, S. A. Teukolsky, W. T.
# Vetterling and B. P. Flannery, "Numerical Recipes", 3rd ed., 2007, section 12.3.

_GROUP: Final = 256


def rows_pair_up(x: Any, n: int, kind: DType) -> bool:
    """Whether rows of reals are to be taken in pairs: they can be, and it saves a pass at least.

    Parameters
    ----------
    x : Storage
        Lines along its last axis.
    n : int
        Elements of a line.
    kind : DType
        Of the complex numbers, or of their parts.
    """
    size = x.dtype.itemsize
    together = x.ndim == 2 and x.shape[0] % 2 == 0 and x.shape[1] == n
    if not together or x.strides != (n * size, size):
        return False
    return not (is_smooth(n) and is_one_pass(x, x, n, kind))


def pairs_from_real(
    recipe: Recipe, x: Any, out: Any, n: int, kind: DType, options: PassOptions
) -> None:
    """As `even_reals.transform_from_real`, of an odd number of reals.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    x : Storage
        Lines along its last axis.
    out : Storage
        Where they go.
    n : int
        Elements of a transform.
    kind : DType
        Of the complex numbers, or of their parts.
    options : PassOptions
        Scale, conjugation and what else a pass does on the way.
    """
    held = recipe.empty((x.shape[0] // 2, n), kind)
    transform_of_any_length(recipe, _halved(x), held, n, kind, PassOptions(parts=HALVED))
    options = PassOptions(conjugate_after=options.conjugate_after, scale=options.scale / 2)
    source = options.source(in_words(held), kind, fitting=FITTING)
    _launch(
        recipe,
        split_row_pairs,
        source,
        options.target(in_words(out), kind, fitting=FITTING),
        n,
        out.size // 2,
    )


def pairs_to_real(
    recipe: Recipe, x: Any, out: Any, n: int, kind: DType, options: PassOptions
) -> None:
    """As `even_reals.transform_to_real`, into an odd number of reals.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    x : Storage
        Lines along its last axis.
    out : Storage
        Where they go.
    n : int
        Elements of a transform.
    kind : DType
        Of the complex numbers, or of their parts.
    options : PassOptions
        Scale, conjugation and what else a pass does on the way.
    """
    held = recipe.empty((out.shape[0] // 2, n), kind)
    first = PassOptions(options.conjugate, MIRRORED, n)
    target = first.target(in_words(held), kind, fitting=FITTING)
    _launch(recipe, join_row_pairs, first.source(in_words(x), kind), target, n, held.size)
    last = PassOptions(scale=options.scale, parts=HALVED)
    transform_of_any_length(recipe, held, _halved(out), n, kind, last)


def _halved(x: Any) -> Any:
    """Two rows as one."""
    rows, n = x.shape
    return x.viewed((rows // 2, 2 * n), (2 * x.strides[0], x.strides[1]))


def _launch(
    recipe: Recipe, kernel: Kernel, source: Source, target: Target, n: int, items: int
) -> None:
    """So many work-items."""
    group = min(_GROUP, source.array.device.capabilities.max_workgroup)
    recipe.launch(kernel, items, group, source, target, n)


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
