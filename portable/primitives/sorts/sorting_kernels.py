"""Sorting of short rows by ranks, and binary search."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.base.searching import partition_point
from portable.primitives.reductions.axis import section_at
from portable.primitives.sorts.keys import Line, Order


@function
def below(x: kl.Scalar, y: kl.Scalar) -> Any:
    """Whether `x` sorts before `y`; NaN after everything."""
    return (x < y) | ((y != y) & (x == x))


@kernel
def sort_by_rank(x: kl.Array, out: Line, *, EACH: int, ORDER: Order) -> None:
    """Sorts short rows: where an element belongs says how many of its row come before it.

    `x` are unsigned numbers, or complex ones, of which a work-item does `EACH`; `out` is a `Line`,
    and `ORDER` says how elements become keys.
    """
    section = section_at(x, EACH, kl.global_id(0))
    if section.inside:
        for at in range(section.first, section.stop):
            element, rank = x[*section.outer, at], kl.cast(0, section.first.dtype)
            for other in range(x.shape[x.ndim - 1]):
                first = ORDER.comes_first(x[*section.outer, other], element, other < at)
                rank = rank + kl.cast(first, rank.dtype)
            out.row(section.outer).put(rank, element, at)


@function
def position_in(table: kl.Array, value: kl.Scalar, start: kl.Scalar, *, AFTER: bool) -> Any:
    """Where a value belongs in a sorted table, looked for from `start`, which is 0."""
    end = start + table.shape[0]
    if AFTER:
        return partition_point(start, end, lambda k: not below(value, table[k]))
    return partition_point(start, end, lambda k: below(table[k], value))


@kernel
def search(table: kl.Array, values: kl.Array, out: kl.Array, *, AFTER: bool) -> None:
    """Where each value belongs in a sorted table: before its equals, or `AFTER` them."""
    i = kl.global_id(0)
    if i < values.shape[0]:
        low = position_in(table, values[i], kl.cast(0, i.dtype), AFTER=AFTER)
        out[i] = kl.cast(low, kl.i64)


@kernel
def member(table: kl.Array, values: kl.Array, out: kl.Array, *, INVERTED: bool) -> None:
    """Whether each value is in a sorted table, or `INVERTED` whether it is not; NaN never is."""
    i = kl.global_id(0)
    if i < values.shape[0]:
        value = values[i]
        at = position_in(table, value, kl.cast(0, i.dtype), AFTER=False)
        there = False
        if at < table.shape[0]:
            there = table[at] == value
        out[i] = there != INVERTED
