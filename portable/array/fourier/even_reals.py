"""Transforms of an even number of reals, or into them, as complex ones of half the length.

Neighbouring numbers are taken as real and imaginary part; what a complex transform makes of them
is split into the transforms of the even and the odd ones, which a last butterfly joins: see
J. W. Cooley, P. A. W. Lewis and P. D. Welch, "The fast Fourier transform algorithm: programming
considerations in the calculation of sine, cosine and Laplace transforms", Journal of Sound and
Vibration 12 (1970). The inverse merges two such halves first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, Final

from portable import lang as kl
from portable.array.fourier.access import MERGED, PAIRED, SPLIT, WITHIN, backwards, element, extent
from portable.array.fourier.butterflies import times
from portable.array.fourier.chirp import transform_of_any_length
from portable.array.fourier.pass_options import (
    TABLES,
    PassOptions,
    found_table,
    in_parts,
    in_words,
    lies_across,
)
from portable.array.fourier.passes import is_one_pass, rows_beside_each_other, transform
from portable.array.fourier.plan import is_smooth
from portable.array.fourier.tables import between_halves, between_long_halves
from portable.array.fourier.tuning import halves_for
from portable.array.fourier.vectors import lanes_of
from portable.dtypes import DType, complex64, complex128, float32
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.base.recipe import Recipe


@dataclass(frozen=True)
class Turns:
    """Rotations, each the product of elements of two small tables."""

    coarse: Any
    fine: Any

    def some(self, k: kl.Scalar, LANES: int) -> Any:
        """As many neighbours as there are lanes, which begin with the `k`-th."""
        width = extent(self.fine, WITHIN)
        coarse = element(self.coarse, (), k // width)
        return times(coarse, element(self.fine, (), k % width, WITHIN, LANES))


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


def transform_from_real(
    recipe: Recipe, x: Any, out: Any, n: int, kind: DType, options: PassOptions
) -> None:
    """As `passes.transform`, of an even number `n` of reals into ``n // 2 + 1`` elements.

    Of `options`, the conjugation at the end and the scale count.

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
    half, source = n // 2, as_pairs(x)
    options = PassOptions(
        conjugate_after=options.conjugate_after, scale=options.scale / 2, parts=PAIRED
    )
    if is_smooth(half) and is_one_pass(source, out, half, kind):
        turns = _turns(recipe, x, kind, half)
        transform(recipe, source, out, half, kind, replace(options, real=SPLIT, turns=turns))
        return
    held = rows_beside_each_other(recipe, out, half, kind)
    transform_of_any_length(recipe, source, held, half, kind, PassOptions(parts=PAIRED))
    _recombine(recipe, held, out, half, kind, options, -1)


def transform_to_real(
    recipe: Recipe, x: Any, out: Any, n: int, kind: DType, options: PassOptions
) -> None:
    """As `passes.transform`, of ``n // 2 + 1`` elements into an even number `n` of reals.

    Of `options`, the conjugation at the beginning and the scale count.

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
    half, target = n // 2, as_pairs(out)
    last = PassOptions(scale=options.scale, parts=PAIRED)
    if not x.device.capabilities.lone_work_items or (
        is_smooth(half) and is_one_pass(x, target, half, kind)
    ):
        turns = _turns(recipe, x, kind, half)
        both = replace(last, conjugate=options.conjugate, real=MERGED, length=n, turns=turns)
        transform_of_any_length(recipe, x, target, half, kind, both)
        return
    held = rows_beside_each_other(recipe, x, half, kind)
    _recombine(recipe, x, held, half, kind, PassOptions(options.conjugate), 1)
    transform_of_any_length(recipe, held, target, half, kind, last)


def _turns(recipe: Recipe, x: Any, kind: DType, half: int) -> Any:
    return found_table(recipe, partial(TABLES, x.device, kind, between_halves, half))


def _recombine(
    recipe: Recipe, x: Any, out: Any, half: int, kind: DType, options: PassOptions, sign: int
) -> None:
    """Rows merged or split in a launch of its own."""
    capabilities = x.device.capabilities
    across, rows = lies_across(out), prod(x.shape[:-1])
    share = halves_for(capabilities)
    in_rows = all(y.strides[-1] == y.dtype.itemsize for y in (x, out))
    lanes = lanes_of(capabilities, kind) if share.group == 1 and in_rows else 1
    find = partial(TABLES, x.device, kind, between_long_halves, half, _WIDTH)
    coarse, fine = found_table(recipe, find, 0), found_table(recipe, find, 1)
    given = (in_parts(y, WITHIN) if lanes > 1 else in_words(y) for y in (x, out, coarse, fine))
    source, target, *tables = given
    form = WITHIN if lanes > 1 else None
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
