"""Reductions and scans along one axis."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.array.elementwise_kernel import unravelled
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["best", "both", "either", "is_true", "product", "reduce", "scan", "total"]


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


@kernel
def reduce(
    x: Any,
    out: Any,
    *,
    MERGE: Any,
    MAP: Any,
    KIND: Any,
    INITIAL: Any,
    LANES: int,
    COLUMNS: bool,
    SECTION: int,
    SPREAD: bool,
) -> None:
    """Merges sections of the last axis of `x`: ``out[..., s]`` is that of section `s`.

    A section has `SECTION` vectors of `LANES`: a run of them, or where `SPREAD` every so-manieth,
    so that neighbouring work-items read neighbours. Where `COLUMNS` the vectors lie along the last
    axis but one.
    """
    lead = x.shape[: x.ndim - 1]
    length = x.shape[x.ndim - 1]
    sections = out.shape[out.ndim - 1]
    rows = 1
    for extent in lead:
        rows = rows * extent
    item = kl.global_id(0)
    if COLUMNS:
        wide = kl.cdiv(rows, LANES)
        s = item // wide
        row = item % wide * LANES
    else:
        s = item % sections
        row = item // sections
    if (row < rows) & (s < sections):
        outer = unravelled(row, lead)
        step = LANES if not COLUMNS else 1
        start = s * SECTION * step
        stop = kl.minimum(start + SECTION * step, length)
        stride = step
        if SPREAD:
            start = s * step
            stop = length
            stride = sections * step
        if COLUMNS and LANES > 1:
            column = kl.splat(kl.cast(INITIAL, KIND), LANES)
            for r in range(start, stop, stride):
                column = MERGE(column, read(x, outer, r, LANES, x.ndim - 2, KIND, MAP))
            for lane in kl.static_range(LANES):
                at = unravelled(row + lane, lead)
                out[*at, s] = column[lane]
        elif LANES > 1:
            neutral = kl.splat(kl.cast(INITIAL, KIND), LANES)
            partial, second, third, fourth = neutral, neutral, neutral, neutral
            full = kl.minimum(stop, length - LANES + 1)
            r = start
            while r + 3 * stride < full:
                partial = MERGE(partial, read(x, outer, r, LANES, -1, KIND, MAP))
                second = MERGE(second, read(x, outer, r + stride, LANES, -1, KIND, MAP))
                third = MERGE(third, read(x, outer, r + 2 * stride, LANES, -1, KIND, MAP))
                fourth = MERGE(fourth, read(x, outer, r + 3 * stride, LANES, -1, KIND, MAP))
                r = r + 4 * stride
            while r < full:
                partial = MERGE(partial, read(x, outer, r, LANES, -1, KIND, MAP))
                r = r + stride
            gathered = MERGE(MERGE(partial, second), MERGE(third, fourth))
            result = folded(gathered, LANES, MERGE)
            if r < stop:
                for q in range(r, kl.minimum(r + LANES, stop)):
                    result = MERGE(result, read(x, outer, q, 1, -1, KIND, MAP))
            out[*outer, s] = result
        else:
            plain = kl.cast(INITIAL, KIND)
            for r in range(start, stop, stride):
                plain = MERGE(plain, read(x, outer, r, 1, -1, KIND, MAP))
            out[*outer, s] = plain


@function
def beats(x: Any, y: Any, LARGEST: Any) -> Any:
    """Whether a later `x` wins over an earlier `y`: by value, or as the first NaN."""
    better = x > y if LARGEST else x < y
    return better | ((x != x) & (y == y))


@kernel
def best(x: Any, places: Any, values: Any, out: Any, *, SECTION: int, LARGEST: bool) -> None:
    """The least or greatest element of each section of the last axis, and its position.

    `places` are the positions of the elements of `x`, or None: their own.
    """
    lead = x.shape[: x.ndim - 1]
    length = x.shape[x.ndim - 1]
    sections = out.shape[out.ndim - 1]
    rows = 1
    for extent in lead:
        rows = rows * extent
    item = kl.global_id(0)
    row = item // sections
    s = item % sections
    if row < rows:
        outer = unravelled(row, lead)
        start = s * SECTION
        value = x[*outer, start]
        place = kl.cast(start, kl.i64) if places is None else places[*outer, start]
        for r in range(start + 1, kl.minimum(start + SECTION, length)):
            new = x[*outer, r]
            here = kl.cast(r, kl.i64) if places is None else places[*outer, r]
            won = beats(new, value, LARGEST)
            value = kl.where(won, new, value)
            place = kl.where(won, here, place)
        values[*outer, s] = value
        out[*outer, s] = place


@kernel
def scan(
    x: Any, starts: Any, out: Any, *, MERGE: Any, KIND: Any, INITIAL: Any, SECTION: int, SHIFT: int
) -> None:
    """Running totals within sections of the last axis, going on from `starts` where given.

    `SHIFT` is 1 where the first element of `out` is the total of nothing.
    """
    lead = x.shape[: x.ndim - 1]
    length = x.shape[x.ndim - 1]
    sections = kl.cdiv(length, SECTION)
    rows = 1
    for extent in lead:
        rows = rows * extent
    item = kl.global_id(0)
    row = item % rows
    s = item // rows
    if s < sections:
        outer = unravelled(row, lead)
        running = kl.cast(INITIAL, KIND)
        if starts is not None and s > 0:
            running = kl.cast(starts[*outer, s - 1], KIND)
        if SHIFT == 1 and s == 0:
            out[*outer, 0] = running
        for r in range(s * SECTION, kl.minimum(s * SECTION + SECTION, length)):
            running = MERGE(running, kl.cast(x[*outer, r], KIND))
            out[*outer, r + SHIFT] = running
