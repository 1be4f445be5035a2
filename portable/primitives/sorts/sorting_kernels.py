"""A stable merge sort, and binary search."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled

__all__ = ["merge_runs", "search", "sort_runs"]


@function
def below(x: Any, y: Any) -> Any:
    """Whether `x` sorts before `y`; NaN after everything."""
    return (x < y) | ((y != y) & (x == x))


@function
def sorts_before(x: Any, y: Any, KIND: Any, DESCENDING: Any) -> Any:
    """Whether `x` comes strictly before `y`; complex numbers by real part, then by imaginary."""
    if DESCENDING:
        a, b = y, x
    else:
        a, b = x, y
    if KIND == "c":
        tied = (a.real == b.real) | ((a.real != a.real) & (b.real != b.real))
        return below(a.real, b.real) | (tied & below(a.imag, b.imag))
    if KIND == "b":
        return kl.cast(a, kl.i32) < kl.cast(b, kl.i32)
    if KIND == "f":
        return below(a, b)
    return a < b


@kernel
def sort_runs(x: Any, out: Any, order: Any, *, RUN: int, KIND: str, DESCENDING: bool) -> None:
    """Sorts runs of `RUN` elements of the last axis by insertion.

    `order`, if not None, says where they were.
    """
    length = x.shape[x.ndim - 1]
    runs = kl.cdiv(length, RUN)
    rows = product_of(x.shape[: x.ndim - 1])
    item = kl.global_id(0)
    if item < rows * runs:
        outer = unravelled(item // runs, x.shape[: x.ndim - 1])
        start = item % runs * RUN
        stop = kl.minimum(start + RUN, length)
        for i in range(start, stop):
            value = x[*outer, i]
            j = i
            going = j > start
            while going:
                before = out[*outer, j - 1]
                going = sorts_before(value, before, KIND, DESCENDING)
                if going:
                    out[*outer, j] = before
                    if order is not None:
                        order[*outer, j] = order[*outer, j - 1]
                    j = j - 1
                    going = j > start
            out[*outer, j] = value
            if order is not None:
                order[*outer, j] = kl.cast(i, kl.i64)


@kernel
def merge_runs(
    x: Any,
    order: Any,
    out: Any,
    new_order: Any,
    run: Any,
    piece: Any,
    *,
    KIND: str,
    DESCENDING: bool,
) -> None:
    """Merges pairs of sorted runs of the last axis, each work-item `piece` elements of the result.

    Where a piece begins in both runs is found by binary search ("merge path", Green, McColl and
    Bader, 2012). `piece` divides ``2 * run``. `order` and `new_order` may be None.
    """
    length = x.shape[x.ndim - 1]
    lead = x.shape[: x.ndim - 1]
    pieces = kl.cdiv(length, piece)
    rows = product_of(lead)
    item = kl.global_id(0)
    if item < rows * pieces:
        outer = unravelled(item // pieces, lead)
        start = item % pieces * piece
        stop = kl.minimum(start + piece, length)
        pair = start // (2 * run) * (2 * run)
        middle = kl.minimum(pair + run, length)
        end = kl.minimum(pair + 2 * run, length)
        before = start - pair
        low = kl.maximum(before - (end - middle), 0)
        high = kl.minimum(before, middle - pair)
        while low < high:
            centre = low + (high - low) // 2
            first = x[*outer, pair + centre]
            second = x[*outer, middle + (before - 1 - centre)]
            taken = not sorts_before(second, first, KIND, DESCENDING)
            low = kl.where(taken, centre + 1, low)
            high = kl.where(taken, high, centre)
        left = pair + low
        right = middle + (before - low)
        # Without branches: which run comes next cannot be foretold. Loads stay inside the runs.
        for place in range(start, stop):
            first_one = x[*outer, kl.minimum(left, middle - 1)]
            second_one = x[*outer, kl.minimum(right, end - 1)]
            later = sorts_before(second_one, first_one, KIND, DESCENDING)
            from_left = (left < middle) & ((right >= end) | (not later))
            out[*outer, place] = kl.where(from_left, first_one, second_one)
            if order is not None:
                new_order[*outer, place] = order[*outer, kl.where(from_left, left, right)]
            left = left + kl.cast(from_left, kl.i64)
            right = right + kl.cast(not from_left, kl.i64)


@kernel
def search(table: Any, values: Any, out: Any, *, AFTER: bool) -> None:
    """Where each value belongs in a sorted table."""
    i = kl.global_id(0)
    if i < values.shape[0]:
        value = values[i]
        low = kl.cast(0, i.dtype)
        high = low + table.shape[0]
        while low < high:
            centre = low + (high - low) // 2
            other = table[centre]
            up = not below(value, other) if AFTER else below(other, value)
            low = kl.where(up, centre + 1, low)
            high = kl.where(up, high, centre)
        out[i] = kl.cast(low, kl.i64)
