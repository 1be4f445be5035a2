"""Reductions along one axis."""

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
    "folded",
    "how_many_true",
    "is_true",
    "product",
    "read",
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
def read(x: Any, outer: Any, r: Any, lanes: Any, AXIS: Any, KIND: Any, MAP: Any) -> Any:
    """One operand, or `lanes` of them along an axis, converted."""
    value = x[*outer, r] if lanes == 1 else kl.vload(x, *outer, r, lanes=lanes, axis=AXIS)
    if MAP is not None:
        value = MAP(value)
    return value if KIND is None else kl.cast(value, KIND)


@function
def folded(value: Any, lanes: Any, MERGE: Any) -> Any:
    """The lanes of a vector merged by halves."""
    if lanes == 1:
        return value
    items = ()
    for lane in kl.static_range(lanes):
        items = (*items, value[lane])  # type: ignore[assignment]
    width = lanes
    for _ in kl.static_range(4):
        if width > 1:
            width = width // 2
            merged = ()
            for lane in kl.static_range(width):
                merged = (*merged, MERGE(items[lane], items[lane + width]))  # type: ignore[assignment]
            items = merged
    return items[0]  # type: ignore[misc]


@function
def merged_on(
    x: Any,
    outer: Any,
    first: Any,
    start: Any,
    AHEAD: Any,
    LANES: Any,
    KIND: Any,
    MAP: Any,
    MERGE: Any,
) -> Any:
    """`start` and `AHEAD` vectors along the last axis."""
    merged = start
    for k in kl.static_range(AHEAD):
        merged = MERGE(merged, read(x, outer, first + k, LANES, x.ndim - 2, KIND, MAP))
    return merged


@kernel
def reduce_columns(
    x: Any,
    out: Any,
    *,
    MERGE: Any,
    MAP: Any,
    KIND: Any,
    INITIAL: Any,
    LANES: int,
    STRIP: int,
    SECTION: int,
) -> None:
    """Merges sections of `SECTION` elements of the last axis, neighbours lying along another.

    A work-item does `STRIP` vectors of `LANES` rows, which lie along the last axis but one.
    """
    lead = x.shape[: x.ndim - 1]
    length = x.shape[x.ndim - 1]
    sections = out.shape[out.ndim - 1]
    rows = product_of(lead)
    strips = kl.cdiv(rows, LANES * STRIP)
    item = kl.global_id(0)
    s = item // strips
    row = item % strips * (LANES * STRIP)
    if s < sections:
        neutral = kl.cast(INITIAL, KIND)
        strip = kl.private((STRIP,), KIND, lanes=LANES)
        for k in range(STRIP):
            strip[k] = kl.splat(neutral, LANES) if LANES > 1 else neutral
        count = kl.minimum(kl.cdiv(rows - row, LANES), STRIP)
        stop = kl.minimum(s * SECTION + SECTION, length)
        if STRIP == 1:
            alone = unravelled(row, lead)
            merged = strip[0]
            for r in kl.range(s * SECTION, stop, unroll=_AHEAD):
                merged = MERGE(merged, read(x, alone, r, LANES, x.ndim - 2, KIND, MAP))
            strip[0] = merged
        else:
            whole = s * SECTION + (stop - s * SECTION) // _AHEAD * _AHEAD
            for r in range(s * SECTION, whole, _AHEAD):
                for k in range(count):
                    outer = unravelled(row + k * LANES, lead)
                    strip[k] = merged_on(x, outer, r, strip[k], _AHEAD, LANES, KIND, MAP, MERGE)
            for r in range(whole, stop):
                for k in range(count):
                    outer = unravelled(row + k * LANES, lead)
                    strip[k] = merged_on(x, outer, r, strip[k], 1, LANES, KIND, MAP, MERGE)
        for k in range(count):
            done = strip[k]
            if LANES > 1:
                for lane in kl.static_range(LANES):
                    at = unravelled(row + k * LANES + lane, lead)
                    out[*at, s] = done[lane]
            else:
                at_one = unravelled(row + k, lead)
                out[*at_one, s] = done


@function
def wins(x: Any, y: Any, LARGEST: Any) -> Any:
    """Whether a later `x` wins over an earlier `y`: by value, or as the first NaN."""
    better = x > y if LARGEST else x < y
    return better | ((x != x) & (y == y))
