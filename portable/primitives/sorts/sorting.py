"""Sorting rows: by buckets or by ranks, and which way suits an array.

Sorting by digits in workgroups is `sweep_sorting`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

from portable.dtypes import complex128, float64, int64
from portable.primitives.base.operands import power_of_two
from portable.primitives.base.recipe import Plans, Recipe
from portable.primitives.maps.elementwise import recorded
from portable.primitives.maps.work import conversion_to
from portable.primitives.moves.gathering import gather_along
from portable.primitives.sorts.bucket_kernels import (
    Divided,
    Halving,
    Sorting,
    divide,
    draw_samples,
    sort_parts,
)
from portable.primitives.sorts.keys import Line, Order, begins_of, in_words, order_of, place_for
from portable.primitives.sorts.sorting_kernels import sort_by_rank
from portable.primitives.sorts.sweep_sorting import can_sweep, sweep_sorted
from portable.primitives.tuning import pieces_for
from portable.tune.ways import Way, Ways

# -- by buckets, in caches ------------------------------------------------------------------------

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
    if x.dtype is complex128:
        return _by_parts(recipe, x, descending, values=values, order=order)
    how = order_of(x.dtype, descending)
    out = recipe.empty(x.shape, x.dtype)
    line = Line(in_words(out), recipe.empty(x.shape, int64) if order else None)
    if x.strides[-1] != x.dtype.itemsize:
        x = recorded(recipe, conversion_to(x.dtype), x)
    (_sort if x.shape[-1] < _SHORTEST else _by_halves)(recipe, x, line, how)
    return (out if values else None), line.places


def _by_parts(
    recipe: Recipe, x: Any, descending: bool, *, values: bool, order: bool
) -> tuple[Any, Any]:
    """In the order of imaginary parts, then of real ones, which leaves alike ones as they are."""
    real, imaginary = (x.viewed(x.shape, x.strides, x.offset + at, dtype=float64) for at in (0, 8))
    _, before = bucket_sorted(recipe, imaginary, descending, values=False, order=True)
    last = x.ndim - 1
    moved = gather_along(recipe, real, before, None, last)
    _, after = bucket_sorted(recipe, moved, descending, values=False, order=True)
    places = gather_along(recipe, before, after, None, last)
    return (gather_along(recipe, x, places, None, last) if values else None), places


def _sort(
    recipe: Recipe,
    x: Any,
    out: Line,
    how: Order,
    starts: Any = None,
    divided: Divided | None = None,
) -> None:
    """Sorts rows, or the buckets of those of `out`, a work-item each; as of `sort_parts`."""
    rows, length = prod(out.elements.shape[:-1]), out.elements.shape[-1]
    count = 1 if starts is None else starts.shape[-2]
    long = length // count >= _LONG
    digit = pieces_for(out.elements.device.capabilities).digit if long else _SHORT_DIGIT
    sorting = Sorting(how, digit, _lanes(out.elements if x is None else x))
    given = in_words(x), starts, divided, out
    if divided is None:
        spare = _in_one(_alike(recipe, out, length))
        recipe.launch(sort_parts, rows * count, 1, *given, spare, 0, 0, SORTING=sorting)
        return
    items = min(rows * count, _ITEMS * out.elements.device.capabilities.compute_units)
    length_of_part = min(length, _ROOM * -(-length // count))
    room = recipe.empty((items * length_of_part,), out.elements.dtype)
    places = None if out.places is None else recipe.empty(room.shape, place_for(length))
    own_room = Line(room, places)
    recipe.launch(sort_parts, items, 1, *given, own_room, 0, length_of_part, SORTING=sorting)
    # No array twice, which would be another program; room is not looked into where `own` is 0.
    unread = divided._replace(line=_with_axes(own_room, out.elements.ndim))
    rest = in_words(x), starts, unread, out, _in_one(divided.line)
    recipe.launch(sort_parts, rows * count, 1, *rest, length_of_part + 1, 0, SORTING=sorting)


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


def _by_halves(recipe: Recipe, x: Any, out: Line, how: Order) -> None:
    """Divides sections, by compressing vectors where it can, and takes each bucket from all."""
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
    lanes = max(1, capabilities.compressed_bytes // max(x.dtype.itemsize, 4))
    given = in_words(x), samples, divided, Line(in_words(room), aside)
    recipe.launch(divide, items, 1, *given, HALVING=Halving(how, count, lanes), SECTION=section)
    starts = begins_of(recipe, counts, counts.dtype)
    _sort(recipe, None, out, how, starts, divided)


def _section(x: Any) -> int:
    """Elements of a row for a work-item; a whole row where rows are many."""
    capabilities = x.device.capabilities
    wanted = capabilities.compute_units * pieces_for(capabilities).groups
    sections = -(-wanted // prod(x.shape[:-1]))
    section: int = -(-x.shape[-1] // sections)
    return section


def _lanes(x: Any) -> int:
    """Neighbours whose keys are worked out at a time."""
    return _LANES if x.strides[-1] == x.dtype.itemsize else 1


# -- by ranks -------------------------------------------------------------------------------------

_GROUP: Final = 64
_ROW: Final = 128
"""Elements of a row for a work-item that is alone: all of them."""


def rank_sorted(
    recipe: Recipe, x: Any, descending: bool, *, values: bool, order: bool
) -> tuple[Any, Any]:
    """The same of short rows, of whose elements each finds its place; as of `bucket_sorted`."""
    out = recipe.empty(x.shape, x.dtype) if values else None
    places = recipe.empty(x.shape, int64) if order else None
    arrays = in_words(x), Line(in_words(out), places)
    keys = order_of(x.dtype, descending)
    each = _ROW if x.device.capabilities.single_work_items else 1
    items = prod(x.shape[:-1]) * -(-x.shape[-1] // each)
    recipe.launch(sort_by_rank, items, _GROUP, *arrays, EACH=each, ORDER=keys)
    return out, places


# -- which way ------------------------------------------------------------------------------------

# Elements of a row from which on digits cost less than ranks; buckets of real numbers do earlier.
_MANY: Final = 48
_MANY_ALONE: Final = 32


def _write_sort(x: Any, descending: bool, values: bool, order: bool) -> Callable[[Any], Any]:
    """What sorting the last axis of arrays like `x` takes."""
    recipe = Recipe(x)
    both = ordered(recipe, x, descending, values=values, order=order)
    return recipe.finish(*[array for array in both if array is not None])


def ordered(
    recipe: Recipe, x: Any, descending: bool, *, values: bool, order: bool
) -> tuple[Any, Any]:
    """The last axis of `x`, which may be empty, sorted as by `bucket_sorted`, in the best way."""
    if x.size:
        both = SORTS.first(x)(recipe, x, descending, values=values, order=order)
        return both[0] if values else None, both[1] if order else None
    return (
        recipe.empty(x.shape, x.dtype) if values else None,
        recipe.empty(x.shape, int64) if order else None,
    )


def _is_short(x: Any) -> bool:
    few = x.device.capabilities.single_work_items and not x.dtype.is_complex
    return bool(x.shape[-1] < (_MANY_ALONE if few else _MANY))


def _sweeps(x: Any) -> bool:
    return not x.device.capabilities.single_work_items and can_sweep(x)


SORTS: Final = Ways[Any, Callable[..., tuple[Any, Any]]](
    "sort",
    Way("by rank", "sort_by_rank", lambda _: iter((rank_sorted,)), _is_short),
    Way(
        "in sweeps",
        "sort_by_workgroup count_by_workgroup place_by_workgroup",
        lambda _: iter((sweep_sorted,)),
        _sweeps,
    ),
    Way(
        "by buckets",
        "draw_samples divide sort_parts",
        lambda _: iter((bucket_sorted,)),
    ),
)
"""How rows are sorted: where work-items have caches and long loops, each its own."""


sorted_along_last: Final = Plans(_write_sort)
"""An array's last axis sorted, by `descending`, and whether values and their order are wanted."""
