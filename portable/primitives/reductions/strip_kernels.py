"""Reductions of columns in which the work-items of a workgroup share a strip of neighbours."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.library.arrivals import arrived_last
from portable.primitives.maps.elementwise_kernel import product_of, unravelled

_AHEAD = 8
"""Rows that a work-item reads before it merges them."""


@function
def merged_down(shared: kl.Array, value: kl.Scalar, MERGE: Any, WIDTH: int, TALL: int) -> Any:
    """What the vectors of the `TALL` rows of work-items come to; the first row is told.

    Before `shared` is written again a barrier is to come.
    """
    across = kl.local_id(0) % WIDTH * MERGE.lanes
    row = kl.local_id(0) // WIDTH
    kl.vstore(shared, row, across, value)
    kl.barrier()
    merged = value
    if row == 0:
        for k in kl.static_range(1, TALL):
            merged = MERGE(merged, kl.vload(shared, k, across, lanes=MERGE.lanes))
    return merged


@kernel
def reduce_strips(
    x: kl.Array,
    parts: kl.Array,
    counts: kl.Array | None,
    out: kl.Array | None,
    *,
    MERGE: Any,
    WIDTH: int,
    TALL: int,
) -> None:
    """Merges the last axis, neighbours lying along another.

    The workgroups of a strip of neighbours take turns at rows, and the last one to come merges what
    they found: nobody waits.

    Parameters
    ----------
    x : array
        What is read.
    parts : array, shape (workgroups of a strip, neighbours)
        What the rows of each workgroup come to.
    counts : array or None
        A place for each strip; all are 0, and are left so. With None no parts are merged.
    out : array or None
        What the parts come to, a number for each neighbour.
    MERGE : Merge
        What is done.
    WIDTH, TALL : int
        Work-items of a workgroup along neighbours, each with a vector of them, and rows of them.
    """
    lead = x.shape[: x.ndim - 1]
    columns = product_of(lead)
    strips = kl.cdiv(columns, MERGE.lanes * WIDTH)
    sections = parts.shape[0]
    strip, s = kl.group_id(0) % strips, kl.group_id(0) // strips
    row = kl.local_id(0) // WIDTH
    column = (strip * WIDTH + kl.local_id(0) % WIDTH) * MERGE.lanes
    inside = column < columns
    shared = kl.local((TALL, WIDTH * MERGE.lanes), MERGE.kind)
    merged = MERGE.spread(MERGE.nothing())
    outer = unravelled(column, lead)
    if inside:
        first, step = s * TALL + row, sections * TALL
        count, steps = x.shape[x.ndim - 1] - first, (step, _AHEAD * step)
        merged, _, _ = MERGE.vectors(x, outer, first, count, steps, x.ndim - 2, _AHEAD)
    merged = merged_down(shared, merged, MERGE, WIDTH, TALL)
    if inside and row == 0:
        kl.vstore(parts, s, column, merged)
    if counts is not None and arrived_last(counts, strip, sections):
        rest = MERGE.spread(MERGE.nothing())
        if inside:
            for q in kl.range(row, sections, TALL, unroll=4):
                rest = MERGE(rest, kl.vload(parts, q, column, lanes=MERGE.lanes))
        rest = merged_down(shared, rest, MERGE, WIDTH, TALL)
        if inside and row == 0:
            kl.vstore(out, column, rest)
