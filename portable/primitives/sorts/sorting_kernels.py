"""A stable merge sort, and binary search."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.reductions.sections import section_at

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
def sort_runs(x: Any, out: Any, *, RUN: int, KIND: str, DESCENDING: bool) -> None:
    """Sorts runs of `RUN` elements of the last axis of `x` by insertion into the `Line` `out`.

    `KIND` is that of the dtype: b, c or f, or any other where ``<`` is the order.
    """
    own = section_at(x, RUN, kl.global_id(0))
    if own.inside:
        line = out.row(own.outer)
        for i in range(own.first, own.stop):
            value, j = x[*own.outer, i], i
            going = j > own.first
            while going:
                before = line.some(j - 1)
                going = sorts_before(value, before, KIND, DESCENDING)
                if going:
                    line.put(j, before, line.was(j - 1))
                    j = j - 1
                    going = j > own.first
            line.put(j, value, i)


@kernel
def merge_runs(given: Any, made: Any, run: Any, piece: Any, *, KIND: str, DESCENDING: bool) -> None:
    """Merges pairs of sorted runs of the last axis.

    Where a piece begins in both runs is found by binary search ("merge path", Green, McColl and
    Bader, 2012).

    Parameters
    ----------
    given, made : Line
        What is read and written.
    run, piece : int
        Elements of a run, and of a work-item's part of the result, which divides ``2 * run``.
    KIND, DESCENDING
        As of `sort_runs`.
    """
    own = section_at(given.elements, piece, kl.global_id(0))
    if own.inside:
        line, out, start = given.row(own.outer), made.row(own.outer), own.first
        length = given.elements.shape[given.elements.ndim - 1]
        pair = start // (2 * run) * (2 * run)
        middle = kl.minimum(pair + run, length)
        end = kl.minimum(pair + 2 * run, length)
        before = start - pair
        low = kl.maximum(before - (end - middle), 0)
        high = kl.minimum(before, middle - pair)
        while low < high:
            centre = low + (high - low) // 2
            first, second = line.some(pair + centre), line.some(middle + (before - 1 - centre))
            taken = not sorts_before(second, first, KIND, DESCENDING)
            low = kl.where(taken, centre + 1, low)
            high = kl.where(taken, high, centre)
        left = pair + low
        right = middle + (before - low)
        # Without branches: which run comes next cannot be foretold. Loads stay inside the runs.
        for place in range(start, own.stop):
            first_one = line.some(kl.minimum(left, middle - 1))
            second_one = line.some(kl.minimum(right, end - 1))
            later = sorts_before(second_one, first_one, KIND, DESCENDING)
            from_left = (left < middle) & ((right >= end) | (not later))
            was = line.was(kl.where(from_left, left, right))
            out.put(place, kl.where(from_left, first_one, second_one), was)
            left = left + kl.cast(from_left, kl.i64)
            right = right + kl.cast(not from_left, kl.i64)


@kernel
def search(table: Any, values: Any, out: Any, *, AFTER: bool) -> None:
    """Where each value belongs in a sorted table: before its equals, or `AFTER` them."""
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
