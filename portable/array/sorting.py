"""The sorting functions of the Array API."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from portable.array.engine import check_operands
from portable.array.geometry import normalized_axis
from portable.array.manipulation import contiguous, moveaxis
from portable.array.recipe import Plans, Recipe
from portable.array.sorting_kernels import merge_runs, sort_runs
from portable.dtypes import int64

if TYPE_CHECKING:
    from portable.array.array import Array

__all__ = ["argsort", "ordered", "sort"]

_RUN: Final = 16
_GROUP: Final = 64
_CPU_PIECE: Final = 1024


def _write_sort(x: Any, descending: bool, wanted: str) -> Callable[[Any], Any]:
    """What sorting the last axis of arrays like `x` takes.

    Runs are sorted by insertion and merged pairwise, in a pass over memory for each doubling.
    """
    recipe = Recipe(x)
    with_order = "order" in wanted
    values, spare = recipe.empty(x.shape, x.dtype), recipe.empty(x.shape, x.dtype)
    order = recipe.empty(x.shape, int64) if with_order else None
    spare_order = recipe.empty(x.shape, int64) if with_order else None
    if x.size:
        length, rows = x.shape[-1], prod(x.shape[:-1])
        kind = "i" if x.dtype.is_integer else x.dtype.kind
        constants = {"KIND": kind, "DESCENDING": descending}
        items = rows * -(-length // _RUN)
        recipe.launch(sort_runs, items, _GROUP, x, values, order, RUN=_RUN, **constants)
        cpu = x.device.capabilities.kind == "cpu"
        run = _RUN
        while run < length:
            piece = min(2 * run, _CPU_PIECE) if cpu else _RUN
            items = rows * -(-length // piece)
            group = 1 if cpu else _GROUP
            numbers = np.int64(run), np.int64(piece)
            recipe.launch(
                merge_runs, items, group, values, order, spare, spare_order, *numbers, **constants
            )
            values, spare, order, spare_order = spare, values, spare_order, order
            run *= 2
    found = {"values": values, "order": order}
    return recipe.finish(*[found[name] for name in wanted.split()])


_sorted: Final = Plans(_write_sort)


def ordered(x: Any, descending: bool) -> tuple[Any, Any]:
    """The last axis sorted, and where its elements were; equal elements keep their order."""
    return _sorted(x, descending, "values order")  # type: ignore[no-any-return]


def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The elements along an axis in order; always stable. NaN counts as greatest."""
    return _along("sort", x, axis, descending, "values")


def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The positions by which `sort` orders the elements along an axis; always stable."""
    return _along("argsort", x, axis, descending, "order")


def _along(name: str, x: Array, axis: int, descending: bool, wanted: str) -> Array:
    check_operands(name, (x,))
    place = normalized_axis(axis, x.ndim)
    found = _sorted(moveaxis(x, place, -1), bool(descending), wanted)
    return contiguous(moveaxis(found, -1, place))
