"""Sorting on processors: how rows are cut into sections and buckets, and launched.

The floor is to read elements twice to find their buckets and to write them once, and then what a
core takes for a bucket in its caches. Of the processor time of 2^22 numbers in double precision, 74
ms on a Zen 5, a quarter goes to finding buckets, a quarter to moving there and half to the sorting
within; NumPy's AVX-512 quicksort took 44 on one core. In single precision a Xeon's core took 48 ms:
17 to find buckets, 10 to move there, 21 to sort within. NumPy took 19: it compresses vectors of
keys, where here each takes some 40 cycles as a number by itself. To compare vectors of keys with
all splitters, not by way of a tree, took 0.96 of the time; other buckets and digits no less. To
halve sections by splitters, the lanes of vectors permuted by a table for want of an instruction in
OpenCL C that compresses, took the two cores of that Xeon 0.83 of the time in single precision, and
1.04 in double, where such vectors hold four keys; positions beside keys 0.89 and 1.18.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

from portable.dtypes import int64, uint8, uint16
from portable.primitives.base.geometry import power_of_two
from portable.primitives.base.recipe import Recipe
from portable.primitives.sorts.bucket_kernels import (
    Sorting,
    Splitters,
    count_buckets,
    draw_samples,
    place_in_buckets,
    sort_parts,
)
from portable.primitives.sorts.keys import Order
from portable.primitives.sorts.lines import Line
from portable.primitives.sorts.radix_passes import begins_of, in_words, order_of, place_for
from portable.primitives.sorts.tuning import pieces_for

__all__ = ["bucket_sorted"]

_SHORTEST: Final = 1 << 14
_FEWEST: Final = 8
_MOST: Final = 512
_SAMPLES: Final = 16
_LONG: Final = 4096
_SHORT_DIGIT: Final = 8
_LANES: Final = 8


def bucket_sorted(
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
    how = order_of(x.dtype, descending)
    out = recipe.empty(x.shape, x.dtype)
    places = recipe.empty(x.shape, int64) if order else None
    if x.shape[-1] < _SHORTEST:
        _sort(recipe, x, None, (out, places), how)
    else:
        starts = _into_buckets(recipe, x, out, places, how)
        _sort(recipe, None, starts, (out, places), how)
    return (out if values else None), places


def _sort(recipe: Recipe, x: Any, starts: Any, found: tuple[Any, Any], how: Order) -> None:
    """Sorts rows, or the buckets that begin at `starts`, a work-item each."""
    out, places = found
    rows, length = prod(out.shape[:-1]), out.shape[-1]
    spare = recipe.empty(out.shape, out.dtype)
    spare_places = None if places is None else recipe.empty(out.shape, place_for(length))
    buckets = 1 if starts is None else starts.shape[-2] // 2
    long = length // buckets >= _LONG
    digit = pieces_for(out.device.capabilities).digit if long else _SHORT_DIGIT
    lines = Line(in_words(out), places), Line(in_words(spare), spare_places)
    sorting = Sorting(how, digit, _lanes(x if starts is None else out))
    recipe.launch(sort_parts, rows * buckets, 1, in_words(x), starts, *lines, SORTING=sorting)


def _into_buckets(recipe: Recipe, x: Any, out: Any, places: Any, how: Order) -> Any:
    """Moves the elements of rows to buckets; where each section's of a bucket begin."""
    lead, length = x.shape[:-1], x.shape[-1]
    share = pieces_for(x.device.capabilities)
    wanted = power_of_two(-(-length * x.dtype.itemsize // share.size))
    splitters = Splitters(how, min(_MOST, max(_FEWEST, wanted)))
    count = 2 * splitters.count
    samples = recipe.empty((*lead, _SAMPLES * splitters.count), x.dtype)
    recipe.launch(draw_samples, samples.size, 1, in_words(x), in_words(samples))
    ordered = recipe.empty(samples.shape, x.dtype)
    _sort(recipe, samples, None, (ordered, None), how)
    section = _section(x)
    items = prod(lead) * -(-length // section)
    buckets = recipe.empty(x.shape, uint8 if count <= 256 else uint16)
    counts = recipe.empty((*lead, count, -(-length // section)), place_for(length))
    given = in_words(x), in_words(ordered), counts, buckets
    recipe.launch(
        count_buckets, items, 1, *given, SPLITTERS=splitters, SECTION=section, LANES=_lanes(x)
    )
    starts = begins_of(recipe, counts, counts.dtype)
    arrays = in_words(x), buckets, starts, Line(in_words(out), places)
    recipe.launch(place_in_buckets, items, 1, *arrays, COUNT=count, SECTION=section)
    return starts


def _section(x: Any) -> int:
    """Elements of a row for a work-item; a whole row where rows are many."""
    capabilities = x.device.capabilities
    wanted = capabilities.compute_units * pieces_for(capabilities).groups
    sections = -(-wanted // prod(x.shape[:-1]))
    section: int = -(-x.shape[-1] // sections)
    return section


def _lanes(x: Any) -> int:
    """Neighbours whose keys are worked out at a time."""
    side_by_side = x.strides[-1] == x.dtype.itemsize and not x.dtype.is_complex
    return _LANES if side_by_side else 1
