"""Sorting by digits: how rows are cut into sections, and launched."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from portable.array.axis import Merge
from portable.array.radix_kernels import DIGIT_BITS, RADIX, count_digits, place_digits, sort_rows
from portable.array.recipe import Recipe
from portable.array.reduction_kernels import total
from portable.array.scanning import scanned
from portable.dtypes import DType, int32, int64, uint8, uint16, uint32, uint64

__all__ = ["begins_of", "digits_of", "in_words", "keys_of", "place_for", "radix_sorted"]

_SECTIONS_PER_UNIT: Final = 2
_SHORTEST_SECTION: Final = 4096


_WORDS: Final = {1: uint8, 2: uint16, 4: uint32, 8: uint64}


def digits_of(kind: DType) -> int:
    """How many passes a dtype takes."""
    return 8 * kind.itemsize // DIGIT_BITS


def in_words(x: Any) -> Any:
    """The same bits as unsigned numbers; complex numbers stay as they are."""
    return x if x.dtype.is_complex else x.viewed(x.shape, x.strides, dtype=_WORDS[x.dtype.itemsize])


def keys_of(kind: DType, descending: bool) -> dict[str, Any]:
    """As kernels take it how elements become keys; complex numbers have two."""
    bits = 8 * kind.itemsize // (2 if kind.is_complex else 1)
    return {"KIND": kind.kind, "BITS": bits, "DESCENDING": descending}


def place_for(length: int) -> DType:
    """What counts the elements of a row."""
    return int32 if length < 2**31 else int64


def begins_of(recipe: Recipe, counts: Any, place: DType) -> Any:
    """Where each digit's elements begin in each section, ``counts[..., d, s]`` being how many."""
    *lead, digits, sections = counts.shape
    line = counts.viewed((*lead, digits * sections), (*counts.strides[:-2], counts.strides[-1]))
    starts = recipe.empty((*lead, digits * sections + 1), place)
    scanned(recipe, line, starts, Merge(total, place, 0), 1)
    size = place.itemsize
    return starts.viewed(counts.shape, (*starts.strides[:-1], sections * size, size))


def radix_sorted(
    recipe: Recipe, x: Any, descending: bool, *, values: bool, order: bool
) -> tuple[Any, Any]:
    """The last axis of `x` sorted, and where its elements were; what is not asked for is None."""
    digits = digits_of(x.dtype)
    how = keys_of(x.dtype, descending)
    result = recipe.empty(x.shape, x.dtype) if values or digits > 2 else None
    spare = recipe.empty(x.shape, x.dtype) if digits > 1 else None
    places = recipe.empty(x.shape, int64) if order else None
    spare_places = recipe.empty(x.shape, place_for(x.shape[-1])) if order and digits > 1 else None
    section = _section(x)
    x, out, spare = (a if a is None else in_words(a) for a in (x, result, spare))
    if section < x.shape[-1]:
        buffers = [(spare, spare_places), (out, places)]
        _pass_by_pass(recipe, x, buffers, section, digits, values, how)
    else:
        arrays = (x, out, spare, places, spare_places)
        rows = prod(x.shape[:-1])
        recipe.launch(sort_rows, rows, 1, *arrays, VALUES=values, DIGITS=digits, **how)
    return (result if values else None), places


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
    counts = recipe.empty((*lead, RADIX, sections), place_for(length))
    source, order = x, None
    for digit in range(digits):
        now = {"SECTION": section, "DIGIT": digit, **how}
        recipe.launch(count_digits, items, 1, source, counts, **now)
        begins = begins_of(recipe, counts, counts.dtype)
        out, becomes = buffers[(digits - digit) % 2]
        out = out if values or digit < digits - 1 else None
        recipe.launch(place_digits, items, 1, source, order, begins, out, becomes, **now)
        source, order = out, becomes
