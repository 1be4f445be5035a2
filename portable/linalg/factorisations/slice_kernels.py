"""Columns of LU that workgroups eliminate in registers, a slice of them each.

A workgroup holds all rows of a slice's columns, so that pivots are searched and rows eliminated
without a word to others. Rows stay where they are: which place exchanges have brought one to is
kept beside it. A slice that is done goes to memory, its rows unmoved, and whoever has columns right
of it takes it into account: so the slices of a panel are a wave. Some workgroups have them in turn,
which all run at the same time, so that others can run beside them. Rows are moved in the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.factorisations.panel_kernels import Candidate, reciprocal_of, size_of

_NONE: Final = -2
"""The size of a row that is done."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What work-items hold of a slice, a constant of the kernels.

    Attributes
    ----------
    rows : int
        Rows of each.
    columns : int
        Columns of the slice.
    items : int
        Work-items of a workgroup, which hold all rows.
    alone : bool
        Whether the slice is the whole panel.
    """

    rows: int
    columns: int
    items: int
    alone: bool


@dataclass(frozen=True)
class Held:
    """The rows of a work-item.

    Attributes
    ----------
    values : array, shape (rows, columns)
        What it holds: the next column first, those that are done last.
    places : array of i32, shape (rows,)
        Where exchanges have brought them, counted from the panel's first row; -1 beyond the matrix.
    """

    values: Any
    places: Any


@kernel
def eliminate_slices(
    a: kl.Array,
    pivots: kl.Array,
    failures: kl.Array,
    moves: kl.Array,
    counts: kl.Array,
    where: tuple[kl.Scalar, ...],
    *,
    HOLDING: Holding,
) -> None:
    """``P A = L U`` of some columns of each matrix, from the diagonal at `first` down.

    No row is moved: `exchange` does that.

    Parameters
    ----------
    a : array, shape (batch, m, n)
        The matrices.
    pivots : array of i32, shape (batch, min(m, n))
        With which row each has changed places.
    failures : array of i32, shape (batch,)
        The first column whose pivots are all 0, counted from 1.
    moves : array of i32, shape (batch, 2 * most, 2)
        Which rows are to go where: those that come to the first rows, as many as there are columns,
        of at most `most`, and those that leave them; -1 where there is none.
    counts : array of i32, shape (batch * panels,)
        How many slices of a panel are done; zeros before.
    where : (int, int, int, int)
        The panel's first column, the one behind its last, its number, and how many workgroups have
        its slices in turn.
    """
    (first, stop, number, workers), WIDTH = where, HOLDING.columns
    batch, m = kl.group_id(0) // workers, a.shape[1] - first
    matrix, slot = a[batch], counts.shape[0] // a.shape[0] * batch + number
    for begin in range(kl.group_id(0) % workers * WIDTH, stop - first, workers * WIDTH):
        width = kl.minimum(stop - first - begin, WIDTH)
        values = loaded(matrix, (first, first + begin), (width, m), HOLDING)
        held = Held(values, kl.private(HOLDING.rows, kl.i32))
        for i in kl.static_range(HOLDING.rows):
            held.places[i] = kl.where(row_of(i) < m, row_of(i), -1)
        if not HOLDING.alone:
            known = kl.local((WIDTH, WIDTH), a.dtype), kl.local((WIDTH, WIDTH), a.dtype)
            for done in range(begin // WIDTH):
                if kl.local_id(0) == 0:
                    while kl.atomic_load(counts, slot, order="acquire") <= done:
                        pass
                kl.barrier()
                take_over(held, matrix, pivots[batch], known, (first, done * WIDTH, m), HOLDING)
        row, firsts = kl.local(WIDTH, a.dtype), kl.local(2, kl.i32)
        if kl.local_id(0) == 0:
            firsts[0] = m
        kl.barrier()
        for k in range(width):
            best, own = chosen(held, firsts, (begin + k, k), m, HOLDING)
            if kl.local_id(0) == 0:
                pivots[batch, first + begin + k] = first + best.row
                if best.size == 0 and failures[batch] == 0:
                    failures[batch] = first + begin + k + 1
                firsts[(k + 1) % 2] = m
            if own == best.row:
                hand_over(held, best, row, k, HOLDING)
            kl.barrier()
            eliminate(held, row, best.size, (begin + k, best.row), HOLDING)
        for i in kl.static_range(HOLDING.rows):
            for j in kl.static_range(WIDTH):
                column = (j + width) % WIDTH
                if row_of(i) < m and column < width:
                    matrix[first + row_of(i), first + begin + column] = held.values[i, j]
        if begin + width == stop - first:
            tell_moves(held, moves[batch], (first, begin + width, m), HOLDING)
        elif not HOLDING.alone:
            kl.barrier()
            if kl.local_id(0) == 0:
                kl.atomic_add(counts, slot, 1, order="release")


@function
def row_of(i: int) -> Any:
    """The number of a work-item's i-th row, counted from the panel's first."""
    return kl.local_id(0) + i * kl.local_size(0)


@function
def loaded(
    matrix: kl.Array,
    corner: tuple[kl.Scalar, ...],
    extents: tuple[kl.Scalar, ...],
    HOLDING: Holding,
) -> Any:
    """The rows of a work-item, zeros beyond the matrix and the slice."""
    (first, column), (width, m) = corner, extents
    values = kl.private((HOLDING.rows, HOLDING.columns), matrix.dtype)
    for i in kl.static_range(HOLDING.rows):
        row = row_of(i)
        for j in kl.static_range(HOLDING.columns):
            # Without a branch, loads are under way together.
            value = matrix[first + kl.minimum(row, m - 1), column + kl.minimum(j, width - 1)]
            is_inside = (row < m) & (j < width)
            values[i, j] = kl.where(is_inside, value, kl.cast(0, matrix.dtype))
    return values


@function
def take_over(
    held: Held,
    matrix: kl.Array,
    pivots: kl.Array,
    known: tuple[kl.Array, ...],
    where: tuple[kl.Scalar, ...],
    HOLDING: Holding,
) -> None:
    """What a slice that is done does to rows: they change places, and less multiples of U's.

    `known` are places in local memory for U, of these columns, and L of the pivots' rows.
    """
    (tops, corner), (first, start, m) = known, where
    values, WIDTH, zero = held.values, HOLDING.columns, kl.cast(0, matrix.dtype)
    multiples = kl.private((HOLDING.rows, WIDTH), matrix.dtype)
    for i in kl.static_range(HOLDING.rows):
        row = first + kl.minimum(row_of(i), m - 1)
        for k in kl.static_range(WIDTH):
            multiples[i, k] = matrix[row, first + start + k]
    for k in kl.static_range(WIDTH):
        exchange_places(held, pivots[first + start + k] - first, start + k, HOLDING)
    for i in kl.static_range(HOLDING.rows):
        place = held.places[i] - start
        if place >= 0 and place < WIDTH:
            for k in kl.static_range(WIDTH):
                tops[place, k] = values[i, k]
                corner[place, k] = multiples[i, k]
    kl.barrier()
    for j in kl.workgroup_range(WIDTH):
        column = kl.private(WIDTH, matrix.dtype)
        for k in kl.static_range(WIDTH):
            column[k] = tops[k, j]
            for above in kl.static_range(k):
                column[k] = column[k] - corner[k, above] * column[above]
            tops[k, j] = column[k]
    kl.barrier()
    for i in kl.static_range(HOLDING.rows):
        for k in kl.static_range(WIDTH):
            below = held.places[i] > start + k
            multiple = kl.where(below, multiples[i, k], zero)
            for j in kl.static_range(WIDTH):
                values[i, j] = values[i, j] - multiple * tops[k, j]


@function
def exchange_places(held: Held, pivot: kl.Scalar, k: kl.Scalar, HOLDING: Holding) -> None:
    """The pivot's row and the k-th change places."""
    for i in kl.static_range(HOLDING.rows):
        place = held.places[i]
        held.places[i] = kl.where(place == pivot, k, kl.where(place == k, pivot, place))


@function
def greater(x: kl.Scalar, y: kl.Scalar) -> Any:
    """The greater of two numbers, of which the second may be NaN, by the fewest instructions."""
    return kl.where(y > x, y, x)


@function
def chosen(
    held: Held, firsts: kl.Array, step: tuple[kl.Scalar, ...], m: kl.Scalar, HOLDING: Holding
) -> Any:
    """The best pivot's size and place, and the place of a work-item's own if it is as good.

    Of equal ones the first place is taken, as by LAPACK, NaN only where there is nothing else.
    Sizes alone are compared by all. Who has the greatest tells its place to ``firsts[k % 2]``,
    which is beyond all places.
    """
    (place, k), none = step, kl.cast(_NONE, held.values.dtype.real)
    greatest = none
    for i in kl.static_range(HOLDING.rows):
        size = kl.where(held.places[i] >= place, size_of(held.values[i, 0]), none)
        greatest = greater(greatest, size)
    best, own = kl.workgroup_reduce(greater, greatest), m
    if greatest == best:
        for i in kl.static_range(HOLDING.rows):
            is_best = (size_of(held.values[i, 0]) == best) | (best == none)
            if is_best and held.places[i] >= place and held.places[i] < own:
                own = held.places[i]
        kl.atomic_min(firsts, k % 2, own)
    kl.barrier()
    return Candidate(best, firsts[k % 2]), own


@function
def hand_over(held: Held, best: Candidate, row: kl.Array, k: kl.Scalar, HOLDING: Holding) -> None:
    """Makes the pivot's row known, zeros in columns that are done."""
    for j in kl.static_range(HOLDING.columns):
        value = held.values[0, j]
        for i in kl.static_range(1, HOLDING.rows):
            value = kl.where(held.places[i] == best.row, held.values[i, j], value)
        row[j] = kl.where(j < HOLDING.columns - k, value, kl.cast(0, row.dtype))


@function
def eliminate(
    held: Held, row: kl.Array, size: kl.Scalar, step: tuple[kl.Scalar, ...], HOLDING: Holding
) -> None:
    """Rows that are no pivots less their multiples of the latest one's, a column further.

    The last columns are those of L, which are done.
    """
    (k, pivot), values = step, held.values
    up, inverse = reciprocal_of(row[0], size)
    exchange_places(held, pivot, k, HOLDING)
    for i in kl.static_range(HOLDING.rows):
        below, value = held.places[i] > k, values[i, 0]
        factor = kl.where(below, value * up * inverse, value)
        multiple = kl.where(below, factor, kl.cast(0, values.dtype))
        for j in kl.static_range(1, HOLDING.columns):
            values[i, j - 1] = values[i, j] - multiple * row[j]
        values[i, HOLDING.columns - 1] = factor


@function
def tell_moves(held: Held, moves: kl.Array, where: tuple[kl.Scalar, ...], HOLDING: Holding) -> None:
    """Which rows are to move where, of a panel of so many columns."""
    first, width, m = where
    for index in kl.workgroup_range(moves.shape[0]):
        moves[index, 0] = -1
    kl.barrier()
    for i in kl.static_range(HOLDING.rows):
        row, place = row_of(i), held.places[i]
        if row < m and (place < width or row < width):
            index = kl.where(place < width, place, moves.shape[0] // 2 + row)
            moves[index, 0] = first + row
            moves[index, 1] = first + place


@kernel
def exchange(
    a: kl.Array, moves: kl.Array, begin: kl.Scalar, end: kl.Scalar, *, STRIP: int, ROWS: int
) -> None:
    """Rows go where panels' pivots want them, in the columns from `begin` to `end`.

    A workgroup reads what changes places in a strip of columns, and then writes it. Local memory:
    ``ROWS STRIP`` elements.

    Parameters
    ----------
    a : array, shape (batch, m, n)
        The matrices.
    moves : array of i32, shape (batch, panels, ROWS, 2)
        As of `eliminate_slices`, of one panel after the other.
    begin, end : int
    """
    strips = (end - begin + STRIP - 1) // STRIP
    batch, start = kl.group_id(0) // strips, begin + kl.group_id(0) % strips * STRIP
    matrix, held = a[batch], kl.local((STRIP, ROWS), a.dtype)
    for panel in range(moves.shape[1]):
        for index in kl.workgroup_range(ROWS * STRIP, unroll=4):
            column, source = start + index // ROWS, moves[batch, panel, index % ROWS, 0]
            if column < end and source >= 0:
                held[index // ROWS, index % ROWS] = matrix[source, column]
        kl.barrier()
        for index in kl.workgroup_range(ROWS * STRIP, unroll=4):
            column, source = start + index // ROWS, moves[batch, panel, index % ROWS, 0]
            if column < end and source >= 0:
                target = moves[batch, panel, index % ROWS, 1]
                matrix[target, column] = held[index // ROWS, index % ROWS]
        kl.barrier()
