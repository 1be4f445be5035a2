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
"""Those of single columns that a lone work-item has in registers, beside columns that make vectors:
fewer are less to compile."""


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


UPPER_TRIANGLE: Final = Triangle(backward=True, turned=False, conjugate=False, unit=False)
ADJOINT: Final = Triangle(backward=False, turned=True, conjugate=True, unit=False)
"""The adjoint of an upper triangle."""


@function
def placed(i: kl.Scalar, order: kl.Scalar, BACKWARD: bool) -> Any:
    """Where the i-th row to be solved for stands."""
    return order - 1 - i if BACKWARD else i


@function
def element_of_triangle(
    t: kl.Array, k: kl.Scalar, i: kl.Scalar, order: kl.Scalar, WHICH: Triangle
) -> Any:
    """What the i-th row to be solved for has of the k-th, which is not after it, unconjugated."""
    row, column = placed(i, order, WHICH.backward), placed(k, order, WHICH.backward)
    return t[column, row] if WHICH.turned else t[row, column]


@kernel
def solve_strips(
    t: kl.Array, b: kl.Array, strips: kl.Scalar, *, LAYOUT: Layout, WHICH: Triangle, COPIED: bool
) -> None:
    """``B = T^-1 B`` for triangles of order ``t.shape[1]``, a strip a work-item.

    It goes through the strip by vectors. If not `COPIED`, rows that are solved for are neighbours
    in `t`, a multiple of `LONG_SEGMENT`. Local memory: ``LAYOUT.solved^2`` elements.
    """
    LANES, order = LAYOUT.lanes, t.shape[1]
    batch, start = kl.group_id(0) // strips, kl.group_id(0) % strips * LAYOUT.strip
    if COPIED:
        w = kl.local((LAYOUT.solved,) * 2, b.dtype)
        edge = kl.cdiv(order, LONG_SEGMENT) * LONG_SEGMENT
        for i in range(edge):
            for k in range(kl.minimum(i + 1, order)):
                w[k, i] = element_of_triangle(t[batch], k, i, order, WHICH) if i < order else 0
    else:
        w = t[batch]
    stop = kl.minimum(start + LAYOUT.strip, b.shape[2])
    for column, lanes in kl.vector_range(start, stop, lanes=LANES):
        ROWS = _SHORT_SEGMENT if lanes < LANES else LONG_SEGMENT
        for first in range(0, order, ROWS):
            solve_band(w, b[batch], (0, first, order), column, WHICH, (lanes, ROWS), True)


@function
def solve_band(
    w: kl.Array,
    b: kl.Array,
    rows: tuple[kl.Scalar, ...],
    column: kl.Scalar,
    WHICH: Triangle,
    SIZE: tuple[int, int],
    SOLVED: bool,
) -> None:
    """Solves for a band of rows of neighbouring columns, in registers.

    Without `SOLVED` they become what those above leave of them.

    Parameters
    ----------
    w : array
        ``w[k, i]`` is what the i-th row to be solved for has of the k-th.
    b : array
        Is overwritten.
    rows : (int, int, int)
        The first row that is solved for, the first of the band, and the one behind the last.
    column : int
        The first.
    WHICH : Triangle
        Which triangle.
    SIZE : (int, int)
        How many columns and rows.
    """
    (top, band, order), (LANES, ROWS), BACKWARD = rows, SIZE, WHICH.backward
    x = kl.private(ROWS, w.dtype, lanes=LANES)
    for i in kl.static_range(ROWS):
        x[i] = kl.splat(kl.cast(0, w.dtype), LANES)
        if band + i < order:
            x[i] = kl.vload(b, placed(band + i, order, BACKWARD), column, lanes=LANES)
    for k in kl.range(top, band, unroll=1):
        known = kl.vload(b, placed(k, order, BACKWARD), column, lanes=LANES)
        for i in kl.static_range(ROWS):
            x[i] = x[i] - multiplier(w, k, band + i, WHICH) * known
    for k in kl.static_range(ROWS):
        if band + k < order:
            if SOLVED:
                if not WHICH.unit:
                    x[k] = x[k] / multiplier(w, band + k, band + k, WHICH)
                for i in kl.static_range(k + 1, ROWS):
                    x[i] = x[i] - multiplier(w, band + k, band + i, WHICH) * x[k]
            kl.vstore(b, placed(band + k, order, BACKWARD), column, x[k])


@function
def multiplier(w: kl.Array, k: kl.Scalar, i: kl.Scalar, WHICH: Triangle) -> Any:
    """An element of a triangle as `solve_band` has it, conjugated where that is meant."""
    return conjugate(w[k, i]) if WHICH.conjugate else w[k, i]


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
            value = conjugate(value) if WHICH.conjugate else value
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
