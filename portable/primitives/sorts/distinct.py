"""Distinct elements of a sorted line: how it is cut, and launched.

As with masks (`portable.primitives.masks.compaction`), a short line takes one launch, which writes
to more memory than it turns out to need; in a longer one what begins is counted first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from portable.dtypes import DType, int64
from portable.primitives.base.borrowed import fetched, new
from portable.primitives.base.recipe import Plans, Recipe, resizable
from portable.primitives.base.storage import contiguous_strides
from portable.primitives.masks.mask_bits import AT_ONCE, Cut, cut_of, how_many, packed_of
from portable.primitives.masks.mask_kernels import take, take_by_workgroup
from portable.primitives.sorts.distinct_kernels import Beginnings, Groups, sizes_of

__all__ = ["Distinct", "Wanted", "distinct_of"]

_AHEAD: Final = 4
_GROUP: Final = 256


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for besides the values; see `Distinct`."""

    firsts: bool = False
    inverse: bool = False
    sizes: bool = False


@dataclass(frozen=True, slots=True)
class Distinct:
    """Groups of equal elements.

    Attributes
    ----------
    values : Array
        The element that each is of.
    firsts : Array or None
        Where the first of each was before the line was sorted.
    inverse : Array or None
        Which group each element is in, in the order from before.
    sizes : Array or None
        How many elements each has.
    """

    values: Any
    firsts: Any
    inverse: Any
    sizes: Any


def distinct_of(line: Any, order: Any, wanted: Wanted) -> Distinct:
    """The groups in a sorted line, with elements in it; waits for the device to count them.

    Parameters
    ----------
    line : Array
        In order, contiguous.
    order : Array or None
        Where each element was, for `firsts` and `inverse`.
    wanted : Wanted
        What to find.
    """
    arrays = (line,) if order is None else (line, order)
    return _distinct.run(arrays, wanted)  # type: ignore[no-any-return]


def _write(arrays: tuple[Any, ...], wanted: Wanted) -> Callable[..., Distinct]:
    line, order = arrays[0], arrays[1] if len(arrays) > 1 else None
    cut = cut_of(line.size, line.device)
    if cut.sections == 1 and line.size <= AT_ONCE:
        return _write_at_once(line, order, wanted, cut)
    return _write_counted_first(line, order, wanted, cut)


_distinct: Final = Plans(_write)


def _results(size: int, count: int, wanted: Wanted, empty: Callable[..., Any]) -> list[Any]:
    """Arrays for starts, firsts, inverse and sizes of so many groups of elements, or None."""
    return [
        empty((count,), int64) if wanted.sizes else None,
        empty((count,), int64) if wanted.firsts else None,
        empty((size,), int64) if wanted.inverse else None,
        empty((count,), int64) if wanted.sizes else None,
    ]


def _kernel(cut: Cut) -> tuple[Any, tuple[None, ...], dict[str, int]]:
    """The kernel that writes groups, what it takes besides, and its constants."""
    if cut.width == 1:
        return take, (None,), {"SECTION": cut.section, "FEW": 64}
    return take_by_workgroup, (), {"WIDTH": cut.width, "AHEAD": _AHEAD, "FEW": 0}


def _write_at_once(line: Any, order: Any, wanted: Wanted, cut: Cut) -> Callable[..., Distinct]:
    recipe = Recipe(*(x for x in (line, order) if x is not None))
    lines = iter(_lines(recipe.empty((4 * line.size + 1,), int64), line.size))
    found = next(lines)
    rest = _results(line.size, line.size, wanted, lambda *_: next(lines))
    values = recipe.empty((line.size,), line.dtype)
    kernel, none, constants = _kernel(cut)
    args = Beginnings(line), Groups(line, order, values, *rest), *none, found
    recipe.launch(kernel, cut.ndrange, cut.width, *args, **constants)
    run = recipe.finish(found, values, *(x for x in rest if x is not None))
    present = [x is not None for x in rest]

    def at_once(*arrays: Any) -> Distinct:
        found, values, *some = run(*arrays)
        count = int(fetched(found)[0])
        given = iter(some)
        _, firsts, inverse, sizes = (next(given) if there else None for there in present)
        return Distinct(_first(values, count), _first(firsts, count), inverse, _first(sizes, count))

    return at_once


def _lines(x: Any, size: int) -> list[Any]:
    """An array in pieces of a size, after one of a single element."""
    step = x.dtype.itemsize
    starts = [0, *range(1, x.size - size + 1, size)]
    return [x.viewed((size if start else 1,), (step,), x.offset + start * step) for start in starts]


def _first(x: Any, count: int) -> Any:
    """The first elements of a line, if it is one."""
    return None if x is None else x.viewed((count,), x.strides)


def _write_counted_first(
    line: Any, order: Any, wanted: Wanted, cut: Cut
) -> Callable[..., Distinct]:
    recipe = Recipe(line)
    counted = packed_of(recipe, Beginnings(line), line.size, cut)
    kernel, none, constants = _kernel(cut)
    like = partial(_like, line)
    results = [like((line.size,), line.dtype), *_results(line.size, line.size, wanted, like)]
    given = (line.at(None, line.offset), None if order is None else order.at(None, order.offset))
    args = Beginnings(given[0], *counted), Groups(*given, *results), *none, None
    write = resizable(kernel[cut.ndrange, cut.width], args, constants)
    count_all = recipe.finish(*counted)
    device, size = line.device, np.int64(line.size)

    def counted_first(line: Any, order: Any = None) -> Distinct:
        counted = count_all(line)
        count = how_many(counted[1], cut)
        make = partial(new, device)
        values = make((count,), line.dtype)
        results = [values, *_results(line.size, count, wanted, make)]
        write(line, *counted, None, line, order, *results, *none, None)
        _, starts, firsts, inverse, sizes = results
        if sizes is not None:
            sizes_of[count, _GROUP](starts, sizes, size)
        return Distinct(values, firsts, inverse, sizes)

    return counted_first


def _like(x: Any, shape: tuple[int, ...], kind: DType) -> Any:
    """An array to stand for others, without memory."""
    return x.viewed(shape, contiguous_strides(shape, kind.itemsize), 0, kind).at(None, 0)
