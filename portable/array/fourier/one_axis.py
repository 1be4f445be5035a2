"""Transforms along one axis of an array."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from portable import lang as kl
from portable.array.fourier import plan
from portable.array.fourier.access import (
    Form,
    Source,
    Target,
    backwards,
    element,
    extent,
    times,
)
from portable.array.fourier.passes import is_one_pass, lanes_of, rows_beside_each_other, transform
from portable.backend import Capabilities
from portable.dtypes import DType, complex64, complex128, float32, float64
from portable.lang.function import function
from portable.lang.kernel import Kernel, kernel
from portable.primitives.base.recipe import Plans, Recipe
from portable.tune.ways import Way, Ways

# How rows of reals are recombined.


class Halves(NamedTuple):
    """How a device shares rows that are merged or split in a launch of their own.

    Attributes
    ----------
    group : int
        Work-items of a workgroup at most.
    chunk : int
        Elements for each of them, beside as many that are mirrored to these.
    """

    group: int
    chunk: int


def halves_for(capabilities: Capabilities) -> Halves:
    """How a device recombines rows."""
    alone = capabilities.single_work_items
    return Halves(1, 1024) if alone else Halves(min(256, capabilities.max_workgroup), 1)


# Transforms of any length as a convolution with a chirp, which takes lengths of small factors.
#
# L. I. Bluestein, "A linear filtering approach to the computation of discrete Fourier transform",
# IEEE Transactions on Audio and Electroacoustics 18 (1970): since ``2 j k = j^2 + k^2 - (k -
# j)^2``, with ``w[k] = exp(-pi i k^2 / n)`` element k is ``w[k] sum(x[j] w[j] conj(w[k - j]))``.


def chirp_and_its_transform(n: int, m: int) -> tuple[plan.Table, plan.Table]:
    """The chirp, and the transform of its conjugate wrapped around `m` places, divided by m."""
    k = np.arange(n)
    chirp = plan.roots(k * k % (2 * n), 2 * n)
    wrapped = np.zeros(m, np.complex128)
    wrapped[:n] = chirp.conj()
    wrapped[m - n + 1 :] = chirp.conj()[:0:-1]
    return chirp, np.fft.fft(wrapped) / m


def transform_of_any_length(job: plan.Transform) -> None:
    """As `passes.transform`, for any `n`."""
    TRANSFORMS.first(job.n)(job)


def _chirp_transform(job: plan.Transform) -> None:
    recipe, x, _, n, kind, options = job
    m = plan.next_smooth(2 * n - 1)
    find = partial(plan.TABLES, x.device, kind, chirp_and_its_transform, n, m)
    chirp, transformed = plan.found_table(recipe, find, 0), plan.found_table(recipe, find, 1)
    held = recipe.empty((prod(x.shape[:-1]), m), kind)
    first = replace(options.first(), table=chirp, factors=transformed, conjugate_after=True)
    transform(job._replace(out=held, n=m, options=first))
    last = replace(options.last(), conjugate_before=True, factors=chirp)
    transform(job._replace(x=held, n=m, options=last))


TRANSFORMS: Final = Ways[int, Callable[[plan.Transform], None]](
    "Fourier transform",
    Way("in passes", "", lambda _: iter((transform,)), plan.is_smooth),
    Way("by a chirp", "", lambda _: iter((_chirp_transform,))),
)
"""How lines of any length are transformed."""


# Transforms of an even number of reals, or into them, as complex ones of half the length.
#
# Neighbouring numbers are taken as real and imaginary part; what a complex transform makes of them
# is split into the transforms of the even and the odd ones, which a last butterfly joins: see J. W.
# Cooley, P. A. W. Lewis and P. D. Welch, "The fast Fourier transform algorithm: programming
# considerations in the calculation of sine, cosine and Laplace transforms", Journal of Sound and
# Vibration 12 (1970). The inverse merges two such halves first.


@dataclass(frozen=True)
class Turns:
    """Rotations, each the product of elements of two small tables."""

    coarse: Any
    fine: Any

    def some(self, k: kl.Scalar, LANES: int) -> Any:
        """As many neighbours as there are lanes, which begin with the `k`-th."""
        width = extent(self.fine, Form.WITHIN)
        coarse = element(self.coarse, (), k // width)
        return times(coarse, element(self.fine, (), k % width, Form.WITHIN, LANES))


@function
def recombine_pair(
    source: Any, target: Any, rows: Any, k: kl.Scalar, n: kl.Scalar, turns: Turns, SIGN: int
) -> None:
    """Element `k` of a row and its mirror image; `rows` has its index in source and target."""
    row, to = rows
    z, other = source.number(row, k), source.number(row, (n - k) % n if SIGN == -1 else n - k)
    if SIGN == 1:
        z = kl.complex(z.real, kl.where(k == 0, 0, z.imag))
        other = kl.complex(other.real, kl.where(k == 0, 0, other.imag))
    target.put_pair(to, k, n, (z, other), turns.some(k, 1), SIGN)


@function
def recombine_vectors(
    source: Any,
    target: Any,
    rows: Any,
    k: kl.Scalar,
    n: kl.Scalar,
    turns: Turns,
    SIGN: int,
    LANES: int,
) -> None:
    """`recombine_pair` of the elements from `k` on, all of them there, none of them the first."""
    row, to = rows
    other = backwards(source.vector(row, n - k - (LANES - 1), LANES))
    pair = source.vector(row, k, LANES), other
    target.put_pair(to, k, n, pair, turns.some(k, LANES), SIGN)


@kernel
def recombine_rows(
    source: Any,
    target: Any,
    turns: Turns,
    n: kl.Scalar,
    rows: kl.Scalar,
    *,
    CHUNK: int,
    LANES: int,
    SIGN: int,
    ACROSS: bool,
) -> None:
    """Merges (`SIGN` 1) or splits (-1) rows, each work-item `CHUNK` elements and their mirrors.

    Parameters
    ----------
    source : Source
        What is read.
    target : Target
        What is written.
    turns : Turns
        The rotations, by ``exp(-pi i k / n)``.
    n, rows : int
        How many elements rows of halves have, and how many rows there are.
    CHUNK, LANES : int
        Elements for a work-item, and of a vector. If that is not 1, the arrays hold the parts of
        complex numbers.
    SIGN : int
        1 or -1.
    ACROSS : bool
        Whether neighbouring work-items are at neighbouring rows, else along a row.
    """
    many = n // 2 + 1
    chunks = kl.cdiv(many, CHUNK)
    item = kl.global_id(0)
    if item < rows * chunks:
        k = (item // rows if ACROSS else item % chunks) * CHUNK
        line = item % rows if ACROSS else item // chunks
        row = source.row(line)
        # Arrays of as many dimensions have rows of one shape.
        both = row, row if target.array.ndim == source.array.ndim else target.row(line)
        stop = kl.minimum(k + CHUNK, many)
        if LANES > 1:
            # Vectors begin at multiples of their length, as those of the table do.
            together = kl.where(source.extent() < n, 0, stop - LANES + 1)
            while k < together:
                if k == 0:
                    for first in range(LANES):
                        recombine_pair(source, target, both, first, n, turns, SIGN)
                else:
                    recombine_vectors(source, target, both, k, n, turns, SIGN, LANES)
                k = k + LANES
        while k < stop:
            recombine_pair(source, target, both, k, n, turns, SIGN)
            k = k + 1


_WIDTH: Final = 256


def transform_from_real(job: plan.Transform) -> None:
    """As `passes.transform`, of an even number `n` of reals into ``n // 2 + 1`` elements.

    Of `options`, the conjugation at the end and the scale count.
    """
    recipe, x, out, n, kind, options = job
    half, source = n // 2, as_pairs(x)
    options = plan.PassOptions(
        conjugate_after=options.conjugate_after, scale=options.scale / 2, parts=Form.PAIRED
    )
    if plan.is_smooth(half) and is_one_pass(source, out, half, kind):
        turns = _turns(recipe, x, kind, half)
        options = replace(options, real=Form.SPLIT, turns=turns)
        transform(plan.Transform(recipe, source, out, half, kind, options))
        return
    held = rows_beside_each_other(recipe, out, half, kind)
    pairs = plan.PassOptions(parts=Form.PAIRED)
    transform_of_any_length(plan.Transform(recipe, source, held, half, kind, pairs))
    _recombine(plan.Transform(recipe, held, out, half, kind, options), -1)


def transform_to_real(job: plan.Transform) -> None:
    """As `passes.transform`, of ``n // 2 + 1`` elements into an even number `n` of reals.

    Of `options`, the conjugation at the beginning and the scale count.
    """
    recipe, x, out, n, kind, options = job
    half, target = n // 2, as_pairs(out)
    last = plan.PassOptions(scale=options.scale, parts=Form.PAIRED)
    if not x.device.capabilities.single_work_items or (
        plan.is_smooth(half) and is_one_pass(x, target, half, kind)
    ):
        turns = _turns(recipe, x, kind, half)
        both = replace(last, conjugate=options.conjugate, real=Form.MERGED, length=n, turns=turns)
        transform_of_any_length(plan.Transform(recipe, x, target, half, kind, both))
        return
    held = rows_beside_each_other(recipe, x, half, kind)
    first = plan.PassOptions(options.conjugate)
    _recombine(plan.Transform(recipe, x, held, half, kind, first), 1)
    transform_of_any_length(plan.Transform(recipe, held, target, half, kind, last))


def _turns(recipe: Recipe, x: Any, kind: DType, half: int) -> Any:
    return plan.found_table(recipe, partial(plan.TABLES, x.device, kind, plan.between_halves, half))


def _recombine(job: plan.Transform, sign: int) -> None:
    """Rows merged or split in a launch of its own."""
    recipe, x, out, half, kind, options = job
    capabilities = x.device.capabilities
    across, rows = plan.lies_across(out), prod(x.shape[:-1])
    share = halves_for(capabilities)
    in_rows = all(y.strides[-1] == y.dtype.itemsize for y in (x, out))
    lanes = lanes_of(capabilities, kind) if share.group == 1 and in_rows else 1
    find = partial(plan.TABLES, x.device, kind, plan.between_long_halves, half, _WIDTH)
    coarse, fine = plan.found_table(recipe, find, 0), plan.found_table(recipe, find, 1)
    given = (
        plan.as_real_pairs(y, Form.WITHIN) if lanes > 1 else plan.in_words(y)
        for y in (x, out, coarse, fine)
    )
    source, target, *tables = given
    form = Form.WITHIN if lanes > 1 else None
    recipe.launch(
        recombine_rows,
        rows * -(-(half // 2 + 1) // share.chunk),
        share.group,
        options.source(source, kind, form=form, near=form),
        options.target(target, kind, form=form, near=form),
        Turns(*tables),
        half,
        rows,
        CHUNK=share.chunk,
        LANES=lanes,
        SIGN=sign,
        ACROSS=across,
    )


def as_pairs(x: Any) -> Any:
    """Neighbouring real numbers as complex ones where they lie so, else the real ones."""
    size = x.dtype.itemsize
    steps = (*x.strides[:-1], x.offset)
    if x.dtype.is_complex or x.shape[-1] % 2 or x.strides[-1] != size:
        return x
    if any(step % (2 * size) for step in steps):
        return x
    kind = complex64 if x.dtype is float32 else complex128
    return x.viewed((*x.shape[:-1], x.shape[-1] // 2), (*x.strides[:-1], 2 * size), dtype=kind)


# -- one axis --------------------------------------------------------------------------------------


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
    return not (plan.is_smooth(n) and is_one_pass(x, x, n, kind))


def pairs_from_real(job: plan.Transform) -> None:
    """As `transform_from_real`, of an odd number of reals."""
    recipe, x, out, n, kind, options = job
    held = recipe.empty((x.shape[0] // 2, n), kind)
    pairs = plan.PassOptions(parts=Form.HALVED)
    transform_of_any_length(job._replace(x=_halved(x), out=held, options=pairs))
    options = plan.PassOptions(conjugate_after=options.conjugate_after, scale=options.scale / 2)
    source = options.source(plan.in_words(held), kind, fitting=Form.FITTING)
    target = options.target(plan.in_words(out), kind, fitting=Form.FITTING)
    _launch(recipe, split_row_pairs, source, target, n, out.size // 2)


def pairs_to_real(job: plan.Transform) -> None:
    """As `transform_to_real`, into an odd number of reals."""
    recipe, x, out, n, kind, options = job
    held = recipe.empty((out.shape[0] // 2, n), kind)
    first = plan.PassOptions(options.conjugate, Form.MIRRORED, n)
    target = first.target(plan.in_words(held), kind, fitting=Form.FITTING)
    _launch(recipe, join_row_pairs, first.source(plan.in_words(x), kind), target, n, held.size)
    last = plan.PassOptions(scale=options.scale, parts=Form.HALVED)
    transform_of_any_length(job._replace(x=held, out=_halved(out), options=last))


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
    options = plan.PassOptions(inverse, conjugate_after=inverse, scale=scale)
    if form == TO_REAL and n % 2:
        options = replace(options, real=Form.MIRRORED, length=n)
    target = _as_rows(out, axis, extent)
    way = _way(form, n, source if form == FROM_REAL else target, kind)
    way(plan.Transform(recipe, source, target, n, kind, options))
    return recipe.finish(out)


def _way(form: str, n: int, real: Any, kind: DType) -> Callable[[plan.Transform], None]:
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
    return plan.with_few_dimensions(x.viewed(tuple(shape), tuple(strides)))


transformed = Plans(_written)
"""Of an array along an axis.

Called with the array, which is not empty; `COMPLEX`, `FROM_REAL` or `TO_REAL`; the length; the
axis; whether the exponent's sign is plus; and what to multiply by.
"""
