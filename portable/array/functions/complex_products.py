"""Products of complex matrices, as one product of real ones that is four times as long.

Complex numbers lie in memory as pairs. Where each number of the right factor stands beside itself
times i, below each other, the pairs of the left one are a row twice as long:
``[re im] @ [[re' im'], [-im' re']]`` is the pair of the product. With few rows the left factor is
taken apart instead, into its real and its imaginary parts, one above the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function
from portable.primitives.base.recipe import Recipe
from portable.primitives.maps.engine import applied, recorded
from portable.primitives.maps.work import Operation, conversion_to

Product = Callable[[Recipe, Any, Any, Any], None]


@function
def _times_i(x: kl.Scalar) -> Any:
    return kl.complex(-kl.imag(x), kl.real(x))


@function
def _plus_times_i(x: kl.Scalar, y: kl.Scalar) -> Any:
    return kl.complex(kl.real(x) - kl.imag(y), kl.imag(x) + kl.real(y))


_TIMES_I: Final = Operation("times i", "c", _times_i)
_PLUS_TIMES_I: Final = Operation("plus times i", "c", _plus_times_i)
_REAL: Final = Operation("real", "c", kl.real, result="real")
_IMAG: Final = Operation("imag", "c", kl.imag, result="real")


def complex_product(recipe: Recipe, a: Any, b: Any, out: Any, multiply: Product) -> None:
    """Steps of a recipe that put a product of complex matrices into an array of it.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    a, b : Storage, shape (..., m, k) and (..., k, n)
        Complex, of one dtype, not empty.
    out : Storage, shape (..., m, n)
        New and contiguous.
    multiply : callable
        ``multiply(recipe, a, b, out)`` does the same of real matrices.
    """
    (m, k), n = a.shape[-2:], b.shape[-1]
    if m * (k + 3 * n) < 2 * k * n and a.ndim == 2:
        _with_left_apart(recipe, a, b, out, multiply)
    else:
        _with_right_doubled(recipe, a, b, out, multiply)


def _with_right_doubled(recipe: Recipe, a: Any, b: Any, out: Any, multiply: Product) -> None:
    *lead, k, n = b.shape
    doubled = recipe.empty((*lead, 2 * k, n), b.dtype)
    row = n * b.dtype.itemsize
    steps = (*doubled.strides[:-2], 2 * row, b.dtype.itemsize)
    applied(recipe, conversion_to(b.dtype), b, out=doubled.viewed(b.shape, steps))
    below = doubled.viewed(b.shape, steps, doubled.offset + row)
    applied(recipe, _TIMES_I, b, out=below)
    multiply(recipe, _in_pairs(_in_rows(recipe, a)), _in_pairs(doubled), _in_pairs(out))


def _with_left_apart(recipe: Recipe, a: Any, b: Any, out: Any, multiply: Product) -> None:
    m, n = out.shape[-2:]
    parts = recipe.empty((2, *a.shape), a.dtype.real)
    for part, operation in enumerate((_REAL, _IMAG)):
        part_view = parts.viewed(a.shape, parts.strides[1:], parts.offset + part * parts.strides[0])
        applied(recipe, operation, a, out=part_view)
    both = recipe.empty((*b.shape[:-2], 2 * m, n), out.dtype)
    left = parts.viewed((2 * m, a.shape[1]), parts.strides[1:])
    multiply(recipe, left, _in_pairs(_in_rows(recipe, b)), _in_pairs(both))
    steps = both.strides
    first = both.viewed(out.shape, steps)
    second = both.viewed(out.shape, steps, both.offset + m * steps[-2])
    applied(recipe, _PLUS_TIMES_I, first, second, out=out)


def _in_rows(recipe: Recipe, x: Any) -> Any:
    """The array itself if numbers of a row are neighbours, else a copy."""
    if x.strides[-1] == x.dtype.itemsize or x.shape[-1] == 1:
        return x
    return recorded(recipe, conversion_to(x.dtype), x)


def _in_pairs(x: Any) -> Any:
    """The same memory as real numbers, rows twice as long."""
    half = x.dtype.itemsize // 2
    shape, strides = (*x.shape[:-1], 2 * x.shape[-1]), (*x.strides[:-1], half)
    return x.viewed(shape, strides, dtype=x.dtype.real)
