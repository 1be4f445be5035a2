"""Sparse matrices made of others: by counting what rows hold, scanning the counts and filling."""

from __future__ import annotations

from typing import Any, NamedTuple

from array_api_compat import array_namespace
from array_api_compat import device as device_of_library

from portable import lang as kl
from portable.namespace import device_of_arrays
from portable.primitives.reducing import segmented_reduce
from portable.primitives.sorting import argsort
from portable.sparse.products import Rows, offsets_of
from portable.sparse.row_products import row_products


def _counted(xp: Any, like: Any, stop: int) -> Any:
    """The numbers below `stop`, of the dtype and on the device of an array."""
    return xp.arange(stop, dtype=like.dtype, device=device_of_library(like))


def begins_of(xp: Any, rows: Any, count: int) -> Any:
    """Where each of so many rows begins among numbers whose rows ascend, and the last one ends."""
    return xp.searchsorted(rows, _counted(xp, rows, count + 1))


def rows_of(a: Rows) -> Any:
    """The row of each number, of the columns' dtype."""
    xp = array_namespace(a.data)
    counts = a.offsets[1:] - a.offsets[:-1]
    return xp.repeat(_counted(xp, a.columns, counts.shape[0]), counts)


class _Gathered(NamedTuple):
    """Which numbers some rows have, how many each row, and where each begins among them."""

    numbers: Any
    counts: Any
    offsets: Any


def _gathered(offsets: Any, rows: Any) -> _Gathered:
    xp = array_namespace(offsets)
    first = xp.take(offsets, rows)
    counts = xp.take(offsets, rows + 1) - first
    begins = offsets_of(counts)
    moved = xp.repeat(first - begins[:-1], counts)
    return _Gathered(moved + _counted(xp, moved, moved.shape[0]), counts, begins)


def taken(a: Rows, rows: Any) -> Rows:
    """Some rows, in the order in which they are named, each as often."""
    xp = array_namespace(a.data)
    numbers, _, offsets = _gathered(a.offsets, rows)
    return Rows(xp.take(a.data, numbers), xp.take(a.columns, numbers), offsets)


def transposed(a: Rows, columns: int) -> Rows:
    """The transposed matrix of one with so many columns, its numbers sorted by columns anew."""
    xp = array_namespace(a.data)
    order = argsort(a.columns)
    ordered = xp.take(a.columns, order)
    offsets = begins_of(xp, ordered, columns)
    rows = xp.take(rows_of(a), order)
    return Rows(xp.take(a.data, order), rows, xp.astype(offsets, a.offsets.dtype))


def kept(a: Rows, wanted: Any) -> Rows:
    """The numbers for which a vector of bools holds."""
    xp = array_namespace(a.data)
    ends = offsets_of(xp.astype(wanted, a.offsets.dtype))
    (numbers,) = xp.nonzero(wanted)
    return Rows(xp.take(a.data, numbers), xp.take(a.columns, numbers), xp.take(ends, a.offsets))


def of_coordinates(
    data: Any, rows: Any, columns: Any, shape: tuple[int, int], offsets: Any
) -> Rows:
    """A matrix of numbers in any order, those of one place added up; `offsets` of which dtype."""
    xp = array_namespace(data)
    by_column = argsort(columns)
    order = xp.take(by_column, argsort(xp.take(rows, by_column)))
    data, rows, columns = (xp.take(x, order) for x in (data, rows, columns))
    some = xp.ones(min(data.shape[0], 1), dtype=xp.bool, device=device_of_library(data))
    differ = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
    (first,) = xp.nonzero(xp.concat([some, differ]))
    if first.shape[0] < data.shape[0]:
        end = xp.asarray([data.shape[0]], dtype=first.dtype, device=device_of_library(first))
        data = segmented_reduce(data, xp.concat([first, end]), kl.add)
        rows, columns = xp.take(rows, first), xp.take(columns, first)
    begins = begins_of(xp, rows, shape[0])
    return Rows(data, columns, xp.astype(begins, offsets.dtype))


def added(a: Rows, b: Rows, shape: tuple[int, int]) -> Rows:
    """The sum of two matrices of one shape."""
    xp = array_namespace(a.data, b.data)
    kind = xp.result_type(a.data, b.data)
    data = xp.concat([xp.astype(a.data, kind), xp.astype(b.data, kind)])
    rows, columns = (
        xp.concat([x, xp.astype(y, x.dtype)])
        for x, y in ((rows_of(a), rows_of(b)), (a.columns, b.columns))
    )
    return of_coordinates(data, rows, columns, shape, a.offsets)


def multiplied(a: Rows, b: Rows, shape: tuple[int, int]) -> Rows:
    """The product of two sparse matrices, which is of a shape.

    Where work-items have a processor each, row by row. Elsewhere each number of `a` meets a row of
    `b`: all products are written one after the other, sorted by their places, and those of one
    place added up (N. Bell, S. Dalton and L. Olson, "Exposing fine-grained parallelism in algebraic
    multigrid methods", SIAM J. Sci. Comput. 34, 2012), which takes a processor 7 to 30 times as
    long, while rows want room for all columns for each work-item.
    """
    xp = array_namespace(a.data, b.data)
    device = device_of_arrays(a.data, b.data)
    if device.capabilities.single_work_items:
        return row_products(a, b, shape[1])
    kind = xp.result_type(a.data, b.data)
    numbers, counts, _ = _gathered(b.offsets, a.columns)
    left, right = xp.repeat(a.data, counts), xp.take(b.data, numbers)
    rows, columns = xp.repeat(rows_of(a), counts), xp.take(b.columns, numbers)
    data = xp.astype(left, kind) * xp.astype(right, kind)
    return of_coordinates(data, rows, columns, shape, a.offsets)


def row_numbers(index: Any, like: Any, rows: int, what: str) -> Any:
    """Which rows (or columns: `what`) an array, a list or a slice of steps names, as an array.

    Raises
    ------
    IndexError
        For what is no vector of integers or bools.
    """
    xp = array_namespace(like)
    where = device_of_library(like)
    if isinstance(index, slice):
        return xp.arange(*index.indices(rows), dtype=like.dtype, device=where)
    numbers = xp.asarray(index, device=where)
    if numbers.ndim == 1 and xp.isdtype(numbers.dtype, "bool") and numbers.shape[0] == rows:
        return xp.astype(xp.nonzero(numbers)[0], like.dtype)
    if numbers.ndim != 1 or not xp.isdtype(numbers.dtype, "integral"):
        raise IndexError(
            f"{what}s by {type(index).__name__} of shape {tuple(numbers.shape)} and dtype "
            f"{numbers.dtype}; expected numbers, a slice, a vector of integers or {rows} bools"
        )
    numbers = xp.astype(numbers, like.dtype)
    if numbers.shape[0] and not (int(xp.min(numbers)) >= -rows and int(xp.max(numbers)) < rows):
        raise IndexError(f"a {what} is out of range for {rows} {what}s")
    return xp.where(numbers < 0, numbers + rows, numbers)
