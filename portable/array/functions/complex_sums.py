"""Sums of complex numbers on processors, as sums of twice as many real ones."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from portable import lang as kl
from portable.primitives.base.operands import accumulator
from portable.primitives.base.recipe import Recipe
from portable.primitives.reductions.axis import reduced
from portable.primitives.reductions.merging import Merge

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
    if not (x.dtype.is_complex and x.device.capabilities.lone_work_items):
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
