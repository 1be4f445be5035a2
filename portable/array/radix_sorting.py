"""Sorting by digits: how rows are cut into sections, and launched."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from portable.array.axis import Merge
from portable.array.radix_kernels import DIGIT_BITS, RADIX, count_digits, place_digits, sort_rows
from portable.array.recipe import Recipe
from portable.array.reduction_kernels import total
from portable.array.scanning import scanned
from portable.dtypes import int32, int64

__all__ = ["digits_of", "radix_sorted"]

_SECTIONS_PER_UNIT: Final = 2
_SHORTEST_SECTION: Final = 4096


def digits_of(kind: Any) -> int:
    """How many passes a dtype takes."""
    return _bits(kind) * (2 if kind.is_complex else 1) // DIGIT_BITS


def _bits(kind: Any) -> int:
    """Bits of a key; float16 is loaded as float32, complex numbers have two keys."""
    size: int = kind.itemsize // 2 if kind.is_complex else kind.itemsize
    return 8 * (max(size, 4) if kind.kind in "fc" else size)


def radix_sorted(
    recipe: Recipe, x: Any, descending: bool, *, values: bool, order: bool
) -> tuple[Any, Any]:
    """The last axis of `x` sorted, and where its elements were; what is not asked for is None."""
    digits = digits_of(x.dtype)
    how = {"KIND": x.dtype.kind, "BITS": _bits(x.dtype), "DESCENDING": descending}
    out = recipe.empty(x.shape, x.dtype) if values or digits > 2 else None
    spare = recipe.empty(x.shape, x.dtype) if digits > 1 else None
    place = int32 if x.shape[-1] < 2**31 else int64
    places = recipe.empty(x.shape, int64) if order else None
    spare_places = recipe.empty(x.shape, place) if order and digits > 1 else None
    section = _section(x)
    if section < x.shape[-1]:
        buffers = [(spare, spare_places), (out, places)]
        _pass_by_pass(recipe, x, buffers, section, digits, values, how)
    else:
        arrays = (x, out, spare, places, spare_places)
        rows = prod(x.shape[:-1])
        recipe.launch(sort_rows, rows, 1, *arrays, VALUES=values, DIGITS=digits, **how)
    return (out if values else None), places


def _section(x: Any) -> int:
    """Elements of a row that a work-item counts and places; a whole row where rows are many."""
    wanted = x.device.capabilities.compute_units * _SECTIONS_PER_UNIT
    sections = -(-wanted // prod(x.shape[:-1]))
    section: int = -(-x.shape[-1] // sections)
    return max(section, _SHORTEST_SECTION)


def _pass_by_pass(
    recipe: Recipe,
    x: Any,
    buffers: list[tuple[Any, Any]],
    section: int,
    digits: int,
    values: bool,
    how: dict[str, Any],
) -> None:
    """A launch to count, those of a scan, and one to place, for each digit."""
    lead, length = x.shape[:-1], x.shape[-1]
    sections = -(-length // section)
    items = prod(lead) * sections
    place = int32 if length < 2**31 else int64
    counts = recipe.empty((*lead, RADIX, sections), place)
    starts = recipe.empty((*lead, RADIX * sections + 1), place)
    rows = (*lead, RADIX * sections)
    line = counts.viewed(rows, (*counts.strides[:-2], place.itemsize))
    begins = starts.viewed(counts.shape, (*starts.strides[:-1], *counts.strides[-2:]))
    source, order = x, None
    for digit in range(digits):
        now = {"SECTION": section, "DIGIT": digit, **how}
        recipe.launch(count_digits, items, 1, source, counts, **now)
        scanned(recipe, line, starts, Merge(total, place, 0), 1)
        out, becomes = buffers[(digits - digit) % 2]
        out = out if values or digit < digits - 1 else None
        recipe.launch(place_digits, items, 1, source, order, begins, out, becomes, **now)
        source, order = out, becomes
