"""Sorting of short rows by ranks, and binary search."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.reductions.sections import section_at

__all__ = ["search", "sort_by_rank"]


@function
def below(x: Any, y: Any) -> Any:
    """Whether `x` sorts before `y`; NaN after everything."""
    return (x < y) | ((y != y) & (x == x))


@kernel
def sort_by_rank(x: Any, out: Any, *, EACH: int, ORDER: Any) -> None:
    """Sorts short rows: where an element belongs says how many of its row come before it.

    `x` are unsigned numbers, or complex ones, of which a work-item does `EACH`; `out` is a `Line`,
    and `ORDER` says how elements become keys.
    """
    own = section_at(x, EACH, kl.global_id(0))
    if own.inside:
        for at in range(own.first, own.stop):
            element, rank = x[*own.outer, at], kl.cast(0, own.first.dtype)
            for other in range(x.shape[x.ndim - 1]):
                first = ORDER.comes_first(x[*own.outer, other], element, other < at)
                rank = rank + kl.cast(first, rank.dtype)
            out.row(own.outer).put(rank, element, at)


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
