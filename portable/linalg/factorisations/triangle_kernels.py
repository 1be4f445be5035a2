"""The kernel that solves triangular systems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.parts import conjugate
from portable.linalg.factorisations.layout import Layout


@dataclass(frozen=True, slots=True)
class Triangle:
    """Which triangle of a block is meant, a constant of kernels.

    Attributes
    ----------
    backward : bool
        Whether the last row is solved for first: the triangle, having been turned, is an upper one.
    turned : bool
        Whether its transpose is meant.
    conjugate : bool
        Whether numbers are conjugated.
    unit : bool
        Whether ones stand for its diagonal.
    """

    backward: bool
    turned: bool
    conjugate: bool
    unit: bool


@function
def placed(i: kl.Scalar, order: kl.Scalar, BACKWARD: bool) -> Any:
    """Where the i-th row to be solved for stands."""
    return order - 1 - i if BACKWARD else i


@function
def load_triangle(t: kl.Array, w: kl.Array, order: kl.Scalar, WHICH: Triangle, EDGE: int) -> None:
    """``w[k, i]``: what the i-th row to be solved for has of the k-th; ones beyond the diagonal."""
    kind = w.dtype
    for index in kl.workgroup_range(EDGE * EDGE):
        k, i = index // EDGE, index % EDGE
        value = kl.cast(0, kind)
        if k <= i and i < order:
            row, column = placed(i, order, WHICH.backward), placed(k, order, WHICH.backward)
            if WHICH.turned:
                row, column = column, row
            value = t[row, column]
            if WHICH.conjugate:
                value = conjugate(value)
        if k == i and (WHICH.unit or i >= order):
            value = kl.cast(1, kind)
        w[k, i] = value
    kl.barrier()


@kernel
def solve_strips(
    t: kl.Array, b: kl.Array, strips: kl.Scalar, *, LAYOUT: Layout, WHICH: Triangle, EDGE: int
) -> None:
    """``B = T^-1 B`` for triangles of order ``t.shape[1]`` up to `EDGE`, a strip a workgroup.

    Local memory: ``EDGE^2`` elements.
    """
    w = kl.local((EDGE, EDGE), b.dtype)
    batch, strip = kl.group_id(0) // strips, kl.group_id(0) % strips
    load_triangle(t[batch], w, t.shape[1], WHICH, EDGE)
    solve_strip(w, b[batch], strip * LAYOUT.strip, t.shape[1], WHICH, LAYOUT)


@function
def solve_strip(
    w: kl.Array, b: kl.Array, start: kl.Scalar, order: kl.Scalar, WHICH: Triangle, LAYOUT: Layout
) -> None:
    """Solves for the columns of a strip; a work-item has a column, or goes through vectors."""
    stop = kl.minimum(start + LAYOUT.strip, b.shape[1])
    if LAYOUT.lanes == 1 and LAYOUT.strip_items >= LAYOUT.strip:
        # Not in a loop: what it hoists would not fit into registers.
        column = start + kl.local_id(0)
        if column < stop:
            solve_columns(w, b, column, order, WHICH, LAYOUT.segment, 1)
        return
    step = LAYOUT.lanes * kl.local_size(0)
    whole = start + (stop - start) // LAYOUT.lanes * LAYOUT.lanes
    for column in range(start + kl.local_id(0) * LAYOUT.lanes, whole, step):
        solve_columns(w, b, column, order, WHICH, LAYOUT.segment, LAYOUT.lanes)
    if LAYOUT.lanes > 1:
        for column in range(whole, stop):
            solve_columns(w, b, column, order, WHICH, LAYOUT.segment, 1)


@function
def solve_columns(
    w: kl.Array,
    b: kl.Array,
    column: kl.Scalar,
    order: kl.Scalar,
    WHICH: Triangle,
    SEGMENT: int,
    LANES: int,
) -> None:
    """Solves for `LANES` columns, a segment of rows after the other in registers."""
    x, BACKWARD = kl.private(SEGMENT, w.dtype, lanes=LANES), WHICH.backward
    for first in range(0, order, SEGMENT):
        for i in kl.static_range(SEGMENT):
            x[i] = kl.splat(kl.cast(0, w.dtype), LANES)
            if first + i < order:
                x[i] = kl.vload(b, placed(first + i, order, BACKWARD), column, lanes=LANES)
        for k in kl.range(first, unroll=1 if LANES > 1 else 4):
            known = kl.vload(b, placed(k, order, BACKWARD), column, lanes=LANES)
            for i in kl.static_range(SEGMENT):
                x[i] = x[i] - w[k, first + i] * known
        for k in kl.static_range(SEGMENT):
            if first + k < order:
                if not WHICH.unit:
                    x[k] = x[k] / w[first + k, first + k]
                for i in kl.static_range(k + 1, SEGMENT):
                    x[i] = x[i] - w[first + k, first + i] * x[k]
                kl.vstore(b, placed(first + k, order, BACKWARD), column, x[k])
