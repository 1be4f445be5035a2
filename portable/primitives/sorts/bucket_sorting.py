"""Sorting on processors: how rows are cut into sections and buckets, and launched.

The floor is to read elements twice to find their buckets and to write them once, and then what a
core takes for a bucket in its caches. There are two ways into buckets. Where an instruction
compresses vectors (`kl.compress`), sections are halved in a core's caches, in 0.12 ns an element
and halving in single precision; elsewhere each key finds its bucket by a search tree, a number by
itself, in some 40 cycles. To halve without such an instruction took 1.04 of the time in double
precision; with AVX-512 the tree takes 1.3 to 1.7 times the processor time of halves.

Pages of memory that is new cost as much as a pass over it: what halves are sorted in is the same
room for one bucket after the other, which for 2^22 numbers took 0.75 of the processor time. Two
cores of a Xeon then take 11.5 ms in single precision, where NumPy's AVX-512 quicksort takes 15.9 on
one of them, and 29.6 in double, where it takes 35.1; for positions 27 and 45, where it takes 138
and 192. Of the processor time 7 ms in single precision and 20 in double go to the division, the
most of the rest to digits; to halve on, down to networks of eight vectors, was no faster. Lines of
a single number take 6 to 12 ms, of which NumPy needs 2.4: copies go by way of sections.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Final

from portable.dtypes import int64, uint8, uint16
from portable.primitives.base.operands import power_of_two
from portable.primitives.base.recipe import Recipe
from portable.primitives.sorts.bucket_kernels import (
    Divided,
    Halving,
    Sorting,
    Splitters,
    count_buckets,
    divide,
    draw_samples,
    place_in_buckets,
    sort_parts,
)
from portable.primitives.sorts.keys import Order, begins_of, in_words, order_of, place_for
from portable.primitives.sorts.lines import Line
from portable.primitives.tuning import pieces_for

_SHORTEST: Final = 1 << 14
_FEWEST: Final = 8
_MOST: Final = 512
_SAMPLES: Final = 16
_LONG: Final = 4096
_SHORT_DIGIT: Final = 8
_LANES: Final = 8
_ITEMS: Final = 2
"""Work-items to a core that take parts in turn."""
_ROOM: Final = 4
"""Of how many average buckets the room for one is; longer ones are sorted after all others."""
_CACHED: Final = 1 << 18
"""Bytes of a section that is divided by halves, of which a core's caches hold two."""


@dataclass(frozen=True, slots=True)
class _Buckets:
    """Where rows were divided: how many buckets are sorted, and as `sort_parts` takes them."""

    count: int = 1
    every: int = 1
    starts: Any = None
    divided: Divided | None = None


_WHOLE: Final = _Buckets()


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
    line = Line(in_words(out), recipe.empty(x.shape, int64) if order else None)
    if x.shape[-1] < _SHORTEST:
        _sort(recipe, x, line, how)
    elif x.device.capabilities.compressed_bytes and _lanes(x) > 1:
        _by_halves(recipe, x, line, how)
    else:
        _by_tree(recipe, x, line, how)
    return (out if values else None), line.places


def _sort(recipe: Recipe, x: Any, out: Line, how: Order, buckets: _Buckets = _WHOLE) -> None:
    """Sorts rows, or the buckets of those of `out`, a work-item each."""
    rows, length = prod(out.elements.shape[:-1]), out.elements.shape[-1]
    long = length // buckets.count >= _LONG
    digit = pieces_for(out.elements.device.capabilities).digit if long else _SHORT_DIGIT
    sorting = Sorting(how, digit, _lanes(out.elements if x is None else x), buckets.every)
    given = in_words(x), buckets.starts, buckets.divided, out
    if buckets.divided is None:
        spare = _in_one(_alike(recipe, out, length))
        recipe.launch(sort_parts, rows * buckets.count, 1, *given, spare, 0, 0, SORTING=sorting)
        return
    items = min(rows * buckets.count, _ITEMS * out.elements.device.capabilities.compute_units)
    length_of_part = min(length, _ROOM * -(-length // buckets.count))
    room = recipe.empty((items * length_of_part,), out.elements.dtype)
    places = None if out.places is None else recipe.empty(room.shape, place_for(length))
    own_room = Line(room, places)
    recipe.launch(sort_parts, items, 1, *given, own_room, 0, length_of_part, SORTING=sorting)
    # No array twice, which would be another program; room is not looked into where `own` is 0.
    unread = buckets.divided._replace(line=_with_axes(own_room, out.elements.ndim))
    rest = in_words(x), buckets.starts, unread, out, _in_one(buckets.divided.line)
    recipe.launch(
        sort_parts, rows * buckets.count, 1, *rest, length_of_part + 1, 0, SORTING=sorting
    )


def _in_one(line: Line) -> Line:
    """All rows of memory without gaps as one."""
    return _with_axes(line, 1)


def _with_axes(line: Line, axes: int) -> Line:
    """All of memory without gaps as one row, under further axes."""

    def viewed(x: Any) -> Any:
        size, step = x.size, x.dtype.itemsize
        return x.viewed((1,) * (axes - 1) + (size,), (size * step,) * (axes - 1) + (step,))

    places = None if line.places is None else viewed(line.places)
    return Line(viewed(line.elements), places)


def _alike(recipe: Recipe, line: Line, length: int) -> Line:
    """Room for as much as a line holds."""
    spare = recipe.empty(line.elements.shape, line.elements.dtype)
    places = None if line.places is None else recipe.empty(spare.shape, place_for(length))
    return Line(spare, places)


def _samples_of(recipe: Recipe, x: Any, count: int, how: Order) -> Any:
    """Some elements of each row in order, for so many buckets."""
    samples = recipe.empty((*x.shape[:-1], _SAMPLES * count), x.dtype)
    recipe.launch(draw_samples, samples.size, 1, in_words(x), in_words(samples))
    ordered = Line(in_words(recipe.empty(samples.shape, x.dtype)), None)
    _sort(recipe, samples, ordered, how)
    return ordered.elements


def _count_of(x: Any) -> int:
    """How many buckets a row is divided into."""
    size = pieces_for(x.device.capabilities).size
    wanted: int = power_of_two(-(-x.shape[-1] * x.dtype.itemsize // size))
    return min(_MOST, max(_FEWEST, wanted))


def _by_tree(recipe: Recipe, x: Any, out: Line, how: Order) -> None:
    """Finds each element's bucket, and one beside it for those that equal a splitter."""
    splitters = Splitters(how, _count_of(x))
    count, section = 2 * splitters.count, _section(x)
    samples = _samples_of(recipe, x, splitters.count, how)
    sections = -(-x.shape[-1] // section)
    items = prod(x.shape[:-1]) * sections
    buckets = recipe.empty(x.shape, uint8 if count <= 256 else uint16)
    counts = recipe.empty((*x.shape[:-1], count, sections), place_for(x.shape[-1]))
    given = in_words(x), samples, counts, buckets
    recipe.launch(
        count_buckets, items, 1, *given, SPLITTERS=splitters, SECTION=section, LANES=_lanes(x)
    )
    starts = begins_of(recipe, counts, counts.dtype)
    arrays = in_words(x), buckets, starts, out
    recipe.launch(place_in_buckets, items, 1, *arrays, COUNT=count, SECTION=section)
    _sort(recipe, None, out, how, _Buckets(splitters.count, 2, starts))


def _by_halves(recipe: Recipe, x: Any, out: Line, how: Order) -> None:
    """Divides sections by compressing vectors, and takes each bucket's elements from all."""
    lead, length = x.shape[:-1], x.shape[-1]
    capabilities = x.device.capabilities
    count, section = min(_MOST, 2 * _count_of(x)), min(_section(x), _CACHED // x.dtype.itemsize)
    samples = _samples_of(recipe, x, count, how)
    sections = -(-length // section)
    counts, edges = (recipe.empty((*lead, count, sections), place_for(length)) for _ in range(2))
    divided = Divided(_alike(recipe, out, length), counts, edges)
    items = min(prod(lead) * sections, _ITEMS * capabilities.compute_units)
    room = recipe.empty((items, section), x.dtype)
    aside = None if out.places is None else recipe.empty(room.shape, place_for(length))
    lanes = capabilities.compressed_bytes // max(x.dtype.itemsize, 4)
    given = in_words(x), samples, divided, Line(in_words(room), aside)
    recipe.launch(divide, items, 1, *given, HALVING=Halving(how, count, lanes), SECTION=section)
    starts = begins_of(recipe, counts, counts.dtype)
    _sort(recipe, None, out, how, _Buckets(count, 1, starts, divided))


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
