"""The kernels that solve triangular systems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.parts import conjugate
from portable.linalg.factorisations.layout import LONG_SEGMENT, Layout

SEGMENT: Final = 8
"""Rows of a column that a work-item solves for, where they are many."""

_SHORT_SEGMENT: Final = 8
"""The same of single columns beside those that make vectors: fewer are less to compile."""


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
def element_of_triangle(
    t: kl.Array, k: kl.Scalar, i: kl.Scalar, order: kl.Scalar, WHICH: Triangle
) -> Any:
    """What the i-th row to be solved for has of the k-th, which is not after it."""
    row, column = placed(i, order, WHICH.backward), placed(k, order, WHICH.backward)
    if WHICH.turned:
        row, column = column, row
    return conjugate(t[row, column]) if WHICH.conjugate else t[row, column]


@kernel
def solve_strips(
    t: kl.Array, b: kl.Array, strips: kl.Scalar, *, LAYOUT: Layout, WHICH: Triangle
) -> None:
    """``B = T^-1 B`` for triangles of order ``t.shape[1]``, a strip a work-item.

    It goes through the strip by vectors. Local memory: ``LAYOUT.solved^2`` elements.
    """
    w, LANES, order = kl.local((LAYOUT.solved,) * 2, b.dtype), LAYOUT.lanes, t.shape[1]
    batch, start = kl.group_id(0) // strips, kl.group_id(0) % strips * LAYOUT.strip
    edge = kl.cdiv(order, LONG_SEGMENT) * LONG_SEGMENT
    for i in range(order):
        for k in range(i):
            w[k, i] = element_of_triangle(t[batch], k, i, order, WHICH)
        w[i, i] = 1 if WHICH.unit else element_of_triangle(t[batch], i, i, order, WHICH)
    for i in range(order, edge):
        for k in range(order):
            w[k, i] = 0
    stop = kl.minimum(start + LAYOUT.strip, b.shape[2])
    whole = start + (stop - start) // LANES * LANES
    for column in range(start, whole, LANES):
        solve_columns(w, b[batch], column, order, WHICH, LANES, LONG_SEGMENT)
    if LANES > 1:
        for column in range(whole, stop):
            solve_columns(w, b[batch], column, order, WHICH, 1, _SHORT_SEGMENT)


@function
def solve_columns(
    w: kl.Array,
    b: kl.Array,
    column: kl.Scalar,
    order: kl.Scalar,
    WHICH: Triangle,
    LANES: int,
    ROWS: int,
) -> None:
    """Solves for `LANES` columns, so many rows after each other in registers."""
    x, BACKWARD = kl.private(ROWS, w.dtype, lanes=LANES), WHICH.backward
    for first in range(0, order, ROWS):
        for i in kl.static_range(ROWS):
            x[i] = kl.splat(kl.cast(0, w.dtype), LANES)
            if first + i < order:
                x[i] = kl.vload(b, placed(first + i, order, BACKWARD), column, lanes=LANES)
        for k in kl.range(first, unroll=1):
            known = kl.vload(b, placed(k, order, BACKWARD), column, lanes=LANES)
            for i in kl.static_range(ROWS):
                x[i] = x[i] - w[k, first + i] * known
        for k in kl.static_range(ROWS):
            if first + k < order:
                if not WHICH.unit:
                    x[k] = x[k] / w[first + k, first + k]
                for i in kl.static_range(k + 1, ROWS):
                    x[i] = x[i] - w[first + k, first + i] * x[k]
                kl.vstore(b, placed(first + k, order, BACKWARD), column, x[k])


@function
def load_triangle(t: kl.Array, w: kl.Array, order: kl.Scalar, WHICH: Triangle, EDGE: int) -> None:
    """``w[k, i]``: what the i-th row to be solved for has of the k-th; ones beyond the diagonal."""
    kind = w.dtype
    # Loads of several rounds are on their way together.
    for index in kl.workgroup_range(EDGE * EDGE, unroll=8):
        k, i = index // EDGE, index % EDGE
        value = kl.cast(0, kind)
        if k <= i and i < order:
            value = element_of_triangle(t, k, i, order, WHICH)
        if k == i and (WHICH.unit or i >= order):
            value = kl.cast(1, kind)
        w[k, i] = value
    kl.barrier()


@kernel
def solve_segments(
    t: kl.Array, b: kl.Array, strips: kl.Scalar, *, WHICH: Triangle, EDGE: int, STRIP: int
) -> None:
    """As `solve_strips`, a strip of columns a workgroup.

    A work-item has `SEGMENT` rows of a column. Who has the first ones solves for them and hands
    them to those after it, in one of two places in turn, who take their share; and so on.
    Work-items: ``STRIP EDGE / SEGMENT``. Local memory: ``EDGE^2 + 2 SEGMENT STRIP`` elements.
    """
    w, order = kl.local((EDGE, EDGE), b.dtype), t.shape[1]
    batch, strip = kl.group_id(0) // strips, kl.group_id(0) % strips
    load_triangle(t[batch], w, order, WHICH, EDGE)
    matrix, column = b[batch], strip * STRIP + kl.local_id(0) % STRIP
    first, x = kl.local_id(0) // STRIP * SEGMENT, kl.private(SEGMENT, b.dtype)
    for i in kl.static_range(SEGMENT):
        x[i] = 0
        if first + i < order and column < b.shape[2]:
            x[i] = matrix[placed(first + i, order, WHICH.backward), column]
    substitute(w, x, order, WHICH.unit, STRIP)
    for i in kl.static_range(SEGMENT):
        if first + i < order and column < b.shape[2]:
            matrix[placed(first + i, order, WHICH.backward), column] = x[i]


@function
def substitute(w: kl.Array, x: kl.Array, order: kl.Scalar, UNIT: bool, STRIP: int) -> None:
    """Solves for what work-items have of a strip's columns, see `solve_segments`.

    There may be more of them.
    """
    part, across = kl.local_id(0) // STRIP, kl.local_id(0) % STRIP
    first, handed = part * SEGMENT, kl.local((2, SEGMENT, STRIP), x.dtype)
    for step in range((order + SEGMENT - 1) // SEGMENT):
        if part == step:
            for k in kl.static_range(SEGMENT):
                if not UNIT:
                    x[k] = x[k] / w[first + k, first + k]
                for i in kl.static_range(k + 1, SEGMENT):
                    x[i] = x[i] - w[first + k, first + i] * x[k]
                handed[step % 2, k, across] = x[k]
        kl.barrier()
        if part > step and first < w.shape[0]:
            for k in kl.static_range(SEGMENT):
                known = handed[step % 2, k, across]
                for i in kl.static_range(SEGMENT):
                    x[i] = x[i] - w[step * SEGMENT + k, first + i] * known
