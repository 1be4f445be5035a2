"""Products and sums of complex numbers, made of the real numbers that they are pairs of.

A product of matrices is one of real ones that is four times as long. Complex numbers lie in memory
as pairs. Where each number of the right factor stands beside itself times i, below each other, the
pairs of the left one are a row twice as long: ``[re im] @ [[re' im'], [-im' re']]`` is the pair of
the product. With few rows the left factor is taken apart instead, into its real and its imaginary
parts, one above the other.

A sum is one of twice as many real numbers, on processors.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function
from portable.primitives.base.operands import accumulator
from portable.primitives.base.recipe import Recipe
from portable.primitives.maps.elementwise import applied, recorded
from portable.primitives.maps.work import Operation, conversion_to
from portable.primitives.reductions.axis import reduced
from portable.primitives.reductions.merging import Merge

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


_WIDTHS: Final = (256, 64, 16, 8, 4)
"""Numbers of a row that are added up side by side."""
_LEAST: Final = 256
"""Numbers of a row that are added up so."""


def sum_of_pairs(recipe: Recipe, x: Any, axes: tuple[int, ...]) -> Any:
    """The sum along axes of complex numbers, in their dtype; None where pairs make no vectors.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    x : Storage
        An array of it, not empty.
    axes : tuple of int
        Which go, counted from the front.
    """
    if not (x.dtype.is_complex and x.device.capabilities.single_work_items):
        return None
    size, half, real = x.dtype.itemsize, x.dtype.itemsize // 2, x.dtype.real
    merge = Merge(kl.add, accumulator(real), 0)
    last = x.ndim - 1
    if last not in axes and x.strides[last] == size:
        shape, strides = (*x.shape[:-1], 2 * x.shape[-1]), (*x.strides[:-1], half)
        pairs = x.viewed(shape, strides, dtype=real)
        return _in_complex(reduced(recipe, pairs, axes, merge, real), x)
    kept = x.shape[: x.ndim - len(axes)]
    length = prod(x.shape[len(kept) :])
    width = next((w for w in _WIDTHS if not length % w and length >= w * w), 0)
    if min(axes) != len(kept) or not x.is_contiguous or not width or length < _LEAST:
        return None
    rows = prod(kept)
    shape, strides = (rows, length // width, 2 * width), (length * size, width * size, half)
    columns = reduced(recipe, x.viewed(shape, strides, dtype=real), (1,), merge, real)
    beside = columns.viewed((rows, width, 2), (width * size, size, half))
    return _in_complex(reduced(recipe, beside, (1,), merge, real), x)


def _in_complex(reals: Any, x: Any) -> Any:
    """Real numbers in pairs as complex ones like those of `x`."""
    shape = (*reals.shape[:-1], reals.shape[-1] // 2)
    return reals.viewed(shape, (*reals.strides[:-1], x.dtype.itemsize), dtype=x.dtype)
