"""Reductions along one axis, and what they do to elements."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled

__all__ = [
    "TRUE_WORD",
    "all_true",
    "both",
    "either",
    "how_many_true",
    "is_true",
    "keep_lanes",
    "product",
    "reduce_columns",
    "square_size",
    "total",
    "wins",
]


TRUE_WORD = 0x01010101
"""Four bools that are true, read as one integer."""
_AHEAD = 8
"""Rows whose vectors a work-item reads before it goes on to the next ones of each."""


@function
def total(x: Any, y: Any) -> Any:
    """The sum."""
    return x + y


@function
def product(x: Any, y: Any) -> Any:
    """The product."""
    return x * y


@function
def both(x: Any, y: Any) -> Any:
    """Logical and."""
    return x & y


@function
def either(x: Any, y: Any) -> Any:
    """Logical or."""
    return x | y


@function
def is_true(x: Any) -> Any:
    """Whether a number is not zero."""
    return x != 0


@function
def square_size(x: Any) -> Any:
    """The square of a complex number's size."""
    return x.real * x.real + x.imag * x.imag


@function
def all_true(x: Any) -> Any:
    """Whether four bools read as one integer are true."""
    return x == TRUE_WORD


@function
def how_many_true(x: Any) -> Any:
    """How many of four bools read as one integer are true: the sum of its bytes."""
    return (x * TRUE_WORD) >> 24


@function
def keep_lanes(out: Any, row: Any, s: Any, value: Any, lanes: Any) -> None:
    """Writes what belongs to section `s` of `lanes` rows from `row` on."""
    for lane in kl.static_range(lanes):
        at = unravelled(row + lane, out.shape[: out.ndim - 1])
        out[*at, s] = value[lane]


@function
def merged_on(x: Any, outer: Any, first: Any, start: Any, AHEAD: Any, MERGE: Any) -> Any:
    """`start` and `AHEAD` vectors along the last axis."""
    merged = start
    for k in kl.static_range(AHEAD):
        merged = MERGE(merged, MERGE.read(x, outer, first + k, x.ndim - 2))
    return merged


@kernel
def reduce_columns(x: Any, out: Any, *, MERGE: Any, STRIP: int, SECTION: int) -> None:
    """Merges sections of `SECTION` elements of the last axis, neighbours lying along another.

    A work-item does `STRIP` vectors of rows, which lie along the last axis but one.
    """
    lead = x.shape[: x.ndim - 1]
    length = x.shape[x.ndim - 1]
    sections = out.shape[out.ndim - 1]
    rows = product_of(lead)
    strips = kl.cdiv(rows, MERGE.lanes * STRIP)
    item = kl.global_id(0)
    s = item // strips
    row = item % strips * (MERGE.lanes * STRIP)
    if s < sections:
        strip = kl.private((STRIP,), MERGE.kind, lanes=MERGE.lanes)
        for k in range(STRIP):
            strip[k] = MERGE.spread(MERGE.nothing())
        count = kl.minimum(kl.cdiv(rows - row, MERGE.lanes), STRIP)
        first = s * SECTION
        stop = kl.minimum(first + SECTION, length)
        if STRIP == 1:
            alone = unravelled(row, lead)
            merged = strip[0]
            for r in kl.range(first, stop, unroll=_AHEAD):
                merged = merged_on(x, alone, r, merged, 1, MERGE)
            strip[0] = merged
        else:
            whole = first + (stop - first) // _AHEAD * _AHEAD
            for r in range(first, whole, _AHEAD):
                for k in range(count):
                    outer = unravelled(row + k * MERGE.lanes, lead)
                    strip[k] = merged_on(x, outer, r, strip[k], _AHEAD, MERGE)
            for r in range(whole, stop):
                for k in range(count):
                    outer = unravelled(row + k * MERGE.lanes, lead)
                    strip[k] = merged_on(x, outer, r, strip[k], 1, MERGE)
        for k in range(count):
            keep_lanes(out, row + k * MERGE.lanes, s, strip[k], MERGE.lanes)


@function
def wins(x: Any, y: Any, LARGEST: Any) -> Any:
    """Whether a later `x` wins over an earlier `y`: by value, or as the first NaN."""
    better = x > y if LARGEST else x < y
    return better | ((x != x) & (y == y))
