"""Reductions of columns in which the work-items of a workgroup share a strip of neighbours."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.arrivals import arrived_last
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.reductions.reduction_kernels import read

__all__ = ["reduce_strips", "vector_of", "vector_put"]

_AHEAD = 8
"""Rows that a work-item reads before it merges them."""


@function
def vector_of(array: Any, row: Any, at: Any, LANES: Any) -> Any:
    """`LANES` neighbours in a row of a table, or the one."""
    return kl.vload(array, row, at, lanes=LANES) if LANES > 1 else array[row, at]


@function
def vector_put(array: Any, row: Any, at: Any, value: Any, LANES: Any) -> None:
    """Writes them."""
    if LANES > 1:
        kl.vstore(array, row, at, value)
    else:
        array[row, at] = value


@function
def rows_merged(
    x: Any,
    outer: Any,
    first: Any,
    step: Any,
    MERGE: Any,
    MAP: Any,
    KIND: Any,
    INITIAL: Any,
    LANES: Any,
    AXIS: Any,
) -> Any:
    """What every `step`-th vector along the last axis, from `first` on, comes to.

    What is left is counted, since positions beyond the end may not fit into an index.
    """
    merged = kl.cast(INITIAL, KIND)
    if LANES > 1:
        merged = kl.splat(merged, LANES)
    r, left = first, x.shape[x.ndim - 1] - first
    while left > (_AHEAD - 1) * step:
        ahead = ()
        for k in kl.static_range(_AHEAD):
            ahead = (*ahead, read(x, outer, r + k * step, LANES, AXIS, KIND, MAP))  # type: ignore[assignment]
        for k in kl.static_range(_AHEAD):
            merged = MERGE(merged, ahead[k])
        r, left = r + _AHEAD * step, left - _AHEAD * step
    while left > 0:
        merged = MERGE(merged, read(x, outer, r, LANES, AXIS, KIND, MAP))
        r, left = r + step, left - step
    return merged


@function
def merged_down(shared: Any, value: Any, MERGE: Any, LANES: Any, WIDTH: Any, TALL: Any) -> Any:
    """What the vectors of the `TALL` rows of work-items come to; the first row is told."""
    across = kl.local_id(0) % WIDTH * LANES
    row = kl.local_id(0) // WIDTH
    merged = value
    height = TALL
    for _ in kl.static_range(10):
        if height > 1:
            height = height // 2
            if row >= height and row < 2 * height:
                vector_put(shared, row - height, across, merged, LANES)
            kl.barrier()
            if row < height:
                merged = MERGE(merged, vector_of(shared, row, across, LANES))
            kl.barrier()
    return merged


@kernel
def reduce_strips(
    x: Any,
    parts: Any,
    counts: Any,
    out: Any,
    *,
    MERGE: Any,
    MAP: Any,
    KIND: Any,
    INITIAL: Any,
    LANES: int,
    WIDTH: int,
    TALL: int,
) -> None:
    """Merges the last axis, neighbours lying along another: ``out`` has one number for each.

    A workgroup has `TALL` rows of `WIDTH` work-items with `LANES` neighbours each. The workgroups
    of a strip take turns at rows and leave what these come to in `parts`, of which the last one
    merges all: nobody waits. Where `counts` is None it does not, and `out` is None. Else it has a
    place for each strip; all are 0, and are left so.
    """
    lead = x.shape[: x.ndim - 1]
    columns = product_of(lead)
    strips = kl.cdiv(columns, LANES * WIDTH)
    sections = parts.shape[0]
    strip, s = kl.group_id(0) % strips, kl.group_id(0) // strips
    row = kl.local_id(0) // WIDTH
    column = (strip * WIDTH + kl.local_id(0) % WIDTH) * LANES
    inside = column < columns
    shared = kl.local((max(TALL // 2, 1), WIDTH * LANES), KIND)
    neutral = kl.cast(INITIAL, KIND)
    merged = kl.splat(neutral, LANES) if LANES > 1 else neutral
    outer = unravelled(column, lead)
    if inside:
        merged = rows_merged(
            x, outer, s * TALL + row, sections * TALL, MERGE, MAP, KIND, INITIAL, LANES, x.ndim - 2
        )
    merged = merged_down(shared, merged, MERGE, LANES, WIDTH, TALL)
    if inside and row == 0:
        vector_put(parts, s, column, merged, LANES)
    if counts is not None and arrived_last(counts, strip, sections):
        rest = kl.splat(neutral, LANES) if LANES > 1 else neutral
        if inside:
            for q in kl.range(row, sections, TALL, unroll=4):
                rest = MERGE(rest, vector_of(parts, q, column, LANES))
        rest = merged_down(shared, rest, MERGE, LANES, WIDTH, TALL)
        if inside and row == 0:
            if LANES > 1:
                kl.vstore(out, column, rest)
            else:
                out[column] = rest
