"""The kernels of LU with partial pivoting: panels, and rows that change places."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.factorisations.layout import Layout

_SMALL: Final = 2.0**-120
_UP: Final = 2.0**100
"""Pivots below the first are multiplied by the second, so that reciprocals do not overflow."""


class Candidate(NamedTuple):
    """The size of an element of a column, and its row."""

    size: Any
    row: Any


@function
def larger(x: Candidate, y: Candidate) -> Any:
    """The larger of two candidates; of equal ones the one above, as LAPACK takes."""
    first = kl.where(x.size == y.size, x.row <= y.row, x.size > y.size)
    return kl.where(first, x, y)


@function
def with_next(x: Candidate, size: kl.Scalar, row: kl.Scalar) -> Any:
    """The larger of a candidate and one of a row below; never NaN."""
    is_larger = size > x.size
    return Candidate(kl.where(is_larger, size, x.size), kl.where(is_larger, row, x.row))


@function
def reciprocal_of(head: kl.Scalar, size: kl.Scalar) -> Any:
    """``(up, inverse)``: a number over a pivot of a size is its product with both, in this order.

    If the pivot is 0, it is the number itself.
    """
    one = kl.cast(1, head.dtype)
    up = kl.where(size < kl.cast(_SMALL, size.dtype), kl.cast(_UP, head.dtype), one)
    up = kl.where(size > 0, up, one)
    return up, 1 / kl.where(size > 0, head * up, one)


@function
def size_of(x: kl.Scalar) -> Any:
    """What pivots are compared by: of complex numbers the sum of both parts' sizes, as LAPACK's."""
    if x.dtype.is_complex:
        return kl.abs(x.real) + kl.abs(x.imag)
    return kl.abs(x)


@kernel
def eliminate_panel(
    a: kl.Array,
    room: kl.Array,
    pivots: kl.Array,
    failures: kl.Array,
    first: kl.Scalar,
    stop: kl.Scalar,
    *,
    LAYOUT: Layout,
) -> None:
    """``P A = L U`` of up to `panel` columns of each matrix, from the diagonal at `first` down.

    Parameters
    ----------
    a : array, shape (batch, m, n)
        The matrices; the columns of the panel become L and U.
    room : array, shape (batch, m, panel)
        Where the panel lies meanwhile, a row in neighbouring places.
    pivots : array of i32, shape (batch, min(m, n))
        With which row each has changed places.
    failures : array of i32, shape (batch,)
        The first column whose pivots are all 0, counted from 1.
    first, stop : int
        The panel's first row, which is its first column, and the column behind its last.
    """
    batch = kl.group_id(0)
    width, m = stop - first, a.shape[1] - first
    matrix, w = a[batch], room[batch]
    PANEL, LANES = LAYOUT.panel, LAYOUT.lanes
    best = Candidate(kl.cast(-1, w.dtype.real), 0)
    for r in kl.workgroup_range(m):
        fetch_row(matrix, w, first, r, width, LAYOUT)
        best = with_next(best, size_of(w[r, 0]), r)
    for k in range(kl.minimum(width, m)):
        pivot = kl.workgroup_reduce(larger, best)
        if kl.local_id(0) == 0:
            pivots[batch, first + k] = first + pivot.row
            if pivot.size == 0 and failures[batch] == 0:
                failures[batch] = first + k + 1
        kl.barrier()
        for j in kl.workgroup_range(PANEL):
            upper, lower = w[k, j], w[pivot.row, j]
            w[k, j] = lower
            w[pivot.row, j] = upper
        kl.barrier()
        best = Candidate(kl.cast(-1, w.dtype.real), k + 1)
        after = kl.minimum(k + 1, PANEL - 1)
        up, inverse = reciprocal_of(w[k, k], pivot.size)
        for r in kl.workgroup_range(k + 1, m):
            factor = w[r, k] * up * inverse
            eliminate_row(w, r, k, factor, PANEL, LANES)
            best = with_next(best, size_of(w[r, after]), r)
    kl.barrier()
    for r in kl.workgroup_range(m):
        copy_row(w, matrix, ((r, 0), (first + r, first)), width, LAYOUT)


@function
def copy_row(
    source: kl.Array,
    target: kl.Array,
    places: tuple[tuple[kl.Scalar, ...], ...],
    width: kl.Scalar,
    LAYOUT: Layout,
) -> None:
    """Copies so many elements of a row, from one place to another."""
    (row, first), (other, start) = places
    if width == LAYOUT.panel:
        for part in kl.static_range(0, LAYOUT.panel, LAYOUT.lanes):
            values = kl.vload(source, row, first + part, lanes=LAYOUT.lanes)
            kl.vstore(target, other, start + part, values)
    else:
        for j in kl.static_range(LAYOUT.panel):
            if j < width:
                target[other, start + j] = source[row, first + j]


@function
def fetch_row(
    matrix: kl.Array, w: kl.Array, first: kl.Scalar, r: kl.Scalar, width: kl.Scalar, LAYOUT: Layout
) -> None:
    """Copies a row of a panel from a matrix, zeros behind it."""
    copy_row(matrix, w, ((first + r, first), (r, 0)), width, LAYOUT)
    for j in kl.range(width, LAYOUT.panel):
        w[r, j] = 0


@function
def columns_from(first: int, LANES: int) -> Any:
    """The numbers of so many columns."""
    return kl.vector(*[first + lane for lane in range(LANES)]) if LANES > 1 else first


@function
def eliminate_row(
    w: kl.Array, r: kl.Scalar, k: kl.Scalar, factor: kl.Scalar, PANEL: int, LANES: int
) -> None:
    """A row less its multiple of the pivot's row; the multiple takes its place in the column."""
    if LANES > 1:
        for part in kl.static_range(0, PANEL, LANES):
            numbers = columns_from(part, LANES)
            row = kl.vload(w, r, part, lanes=LANES)
            less = row - factor * kl.vload(w, k, part, lanes=LANES)
            row = kl.where(numbers == k, kl.splat(factor, LANES), row)
            kl.vstore(w, r, part, kl.where(numbers > k, less, row))
    else:
        for j in kl.static_range(PANEL):
            if j > k:
                w[r, j] = w[r, j] - factor * w[k, j]
        w[r, k] = factor


@kernel
def exchange_rows(
    a: kl.Array,
    pivots: kl.Array,
    panel: tuple[kl.Scalar, ...],
    left_out: tuple[kl.Scalar, ...],
    strips: kl.Scalar,
    *,
    STRIP: int,
    LANES: int,
) -> None:
    """Brings rows where the pivots of a panel of columns want them, in all columns but some.

    A work-item exchanges them in turn, by vectors, in a strip of columns.
    """
    first, stop = panel
    batch, strip = kl.global_id(0) // strips, kl.global_id(0) % strips
    if batch < a.shape[0]:
        matrix, swaps = a[batch], pivots[batch]
        begin = strip * STRIP
        end = kl.minimum(begin + STRIP, matrix.shape[1])
        for k in range(first, kl.minimum(stop, pivots.shape[1])):
            other = swaps[k]
            if other != k:
                swap_parts(matrix, (k, other), begin, kl.minimum(end, left_out[0]), LANES)
                swap_parts(matrix, (k, other), kl.maximum(begin, left_out[1]), end, LANES)


@function
def swap_parts(
    matrix: kl.Array, rows: tuple[kl.Scalar, ...], begin: kl.Scalar, end: kl.Scalar, LANES: int
) -> None:
    """Exchanges two rows of some columns."""
    for column, lanes in kl.vector_range(begin, end, lanes=LANES):
        upper = kl.vload(matrix, rows[0], column, lanes=lanes)
        lower = kl.vload(matrix, rows[1], column, lanes=lanes)
        kl.vstore(matrix, rows[0], column, lower)
        kl.vstore(matrix, rows[1], column, upper)
