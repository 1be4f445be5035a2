"""Transforms of an even number of reals, or into them, as complex ones of half the length.

Neighbouring numbers are taken as real and imaginary part; what a complex transform makes of them
is split into the transforms of the even and the odd ones, which a last butterfly joins: see
J. W. Cooley, P. A. W. Lewis and P. D. Welch, "The fast Fourier transform algorithm: programming
considerations in the calculation of sine, cosine and Laplace transforms", Journal of Sound and
Vibration 12 (1970). The inverse merges two such halves first.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, Final

from portable.array.fourier.access import MERGED, PAIRED, SPLIT, WITHIN
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
from portable.array.fourier.recombination_kernel import Turns, recombine_rows
from portable.array.fourier.tables import between_halves, between_long_halves
from portable.array.fourier.tuning import halves_for
from portable.array.fourier.vectors import lanes_of
from portable.dtypes import DType, complex64, complex128, float32
from portable.primitives.base.recipe import Recipe

__all__ = ["transform_from_real", "transform_to_real"]

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
