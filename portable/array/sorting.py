"""The sorting functions of the Array API."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from portable.array.engine import check_operands
from portable.array.geometry import normalized_axis
from portable.array.manipulation import contiguous, moveaxis
from portable.array.sorting_kernels import merge_runs, sort_runs
from portable.dtypes import int64

if TYPE_CHECKING:
    from portable.array.array import Array

__all__ = ["argsort", "ordered", "sort"]

_RUN: Final = 16
_GROUP: Final = 64


def ordered(x: Any, descending: bool) -> tuple[Any, Any]:
    """The last axis sorted, and where its elements were; equal elements keep their order.

    Runs are sorted by insertion and merged pairwise, in a pass over memory for each doubling.
    """
    values, order = x.device.empty(x.shape, x.dtype), x.device.empty(x.shape, int64)
    if not x.size:
        return values, order
    length, rows = x.shape[-1], prod(x.shape[:-1])
    kind = "i" if x.dtype.is_integer else x.dtype.kind
    constants = {"KIND": kind, "DESCENDING": descending}
    items = rows * -(-length // _RUN)
    sort_runs[items, _GROUP](x, values, order, RUN=_RUN, **constants)
    run = _RUN
    spare = x.device.empty(x.shape, x.dtype), x.device.empty(x.shape, int64)
    while run < length:
        launcher = merge_runs[rows * length, _GROUP]
        launcher(values, order, *spare, np.int64(run), **constants)
        (values, order), spare = spare, (values, order)
        run *= 2
    return values, order


def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The elements along an axis in order; always stable. NaN counts as greatest."""
    return _along("sort", x, axis, descending)[0]


def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The positions by which `sort` orders the elements along an axis; always stable."""
    return _along("argsort", x, axis, descending)[1]


def _along(name: str, x: Array, axis: int, descending: bool) -> tuple[Array, Array]:
    check_operands(name, (x,))
    place = normalized_axis(axis, x.ndim)
    values, order = ordered(moveaxis(x, place, -1), descending)
    return contiguous(moveaxis(values, -1, place)), contiguous(moveaxis(order, -1, place))
