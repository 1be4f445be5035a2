"""Sorting by digits on processors: how rows are cut into sections, and launched."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from portable.primitives.base.recipe import Recipe
from portable.primitives.sorts.radix_kernels import RADIX, count_digits, place_digits, sort_rows
from portable.primitives.sorts.radix_passes import (
    begins_of,
    buffers_for,
    digits_of,
    in_words,
    keys_of,
    passes,
    place_for,
)

__all__ = ["radix_sorted"]

_SECTIONS_PER_UNIT: Final = 2
_SHORTEST_SECTION: Final = 4096


def radix_sorted(
    recipe: Recipe, x: Any, descending: bool, *, values: bool, order: bool
) -> tuple[Any, Any]:
    """The last axis of `x` sorted, and where its elements were; what is not asked for is None.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    x : Storage
        An array of it, not empty.
    descending : bool
        Whether the greatest come first.
    values, order : bool
        Whether the elements in order, and where they were, are wanted.
    """
    how = keys_of(x.dtype, descending)
    buffers = buffers_for(recipe, x, values=values, order=order)
    (out, places), (spare, spare_places) = buffers
    section = _section(x)
    if section < x.shape[-1]:
        _pass_by_pass(recipe, x, buffers, section, values, how)
    else:
        arrays = (in_words(x), in_words(out), in_words(spare), places, spare_places)
        rows, digits = prod(x.shape[:-1]), digits_of(x.dtype)
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
    values: bool,
    how: dict[str, Any],
) -> None:
    """A launch to count, those of a scan, and one to place, for each digit."""
    lead, length = x.shape[:-1], x.shape[-1]
    sections = -(-length // section)
    items = prod(lead) * sections
    counts = recipe.empty((*lead, RADIX, sections), place_for(length))
    for digit, source, order, out, new_order in passes(x, buffers, values=values):
        now = {"SECTION": section, "DIGIT": digit, **how}
        recipe.launch(count_digits, items, 1, source, counts, **now)
        begins = begins_of(recipe, counts, counts.dtype)
        recipe.launch(place_digits, items, 1, source, order, begins, out, new_order, **now)
