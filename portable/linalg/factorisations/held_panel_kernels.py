"""Panels of LU that workgroups eliminate in registers, and what they leave to the other columns.

Rows stay where they are, and each work-item holds some, all columns of the panel: which row a pivot
is of is kept beside them, so that a panel moves each row once, in the end. A workgroup finds the
best of its rows. Where there are several workgroups, each puts this row on a board, in one of two
places in turn, since who has seen the others' next rows knows that they have read the last ones;
all read all, and take the best. They have to run at the same time.

What the panel before leaves of a panel is done to it when it is loaded, so that nothing is launched
between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.boards import awaited, publish
from portable.linalg.factorisations.panel_kernels import Candidate, larger, reciprocal_of, size_of
from portable.linalg.factorisations.triangle_kernels import SEGMENT, substitute

_NONE: Final = -2
"""The rank of a row where there is none."""

MOST_GROUPS: Final = 32
"""Workgroups that hold a panel at most."""

NARROWEST: Final = 8
"""Columns of a panel at least."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What work-items hold of a panel, a constant of the kernels.

    Attributes
    ----------
    rows : int
        Rows of each.
    panel : int
        Columns.
    items : int
        Work-items of a workgroup.
    """

    rows: int
    panel: int
    items: int


@dataclass(frozen=True)
class Held:
    """The rows of a work-item.

    Attributes
    ----------
    values : array, shape (rows, panel)
        What it holds: the next column first, those that are done last.
    places : array of i32, shape (rows,)
        Where exchanges have brought them, counted from the panel's first row.
    first : int
        Its first row, counted from the panel's first.
    """

    values: Any
    places: Any
    first: Any

    def row(self, i: int) -> Any:
        """The number of its i-th row."""
        return self.first + i * kl.local_size(0)


@dataclass(frozen=True)
class Known:
    """What a workgroup knows of workgroups' best rows, in local memory.

    Attributes
    ----------
    rows : array, shape (groups + 1, panel)
        Their elements; behind them the workgroup's own until it is told.
    places : array of i32, shape (groups,)
        Where exchanges have brought them; beyond the matrix where a workgroup has none.
    """

    rows: Any
    places: Any


@function
def first_row(group: kl.Scalar, ROWS: int) -> Any:
    """The first row of a work-item, counted from the panel's first."""
    return group * (ROWS * kl.local_size(0)) + kl.local_id(0)


@kernel
def eliminate_in_registers(
    a: kl.Array,
    pivots: kl.Array,
    failures: kl.Array,
    moves: kl.Array,
    triangles: kl.Array,
    told: tuple[kl.Array, ...],
    where: tuple[kl.Scalar, ...],
    *,
    HOLDING: Holding,
) -> None:
    """``P A = L U`` of up to `panel` columns of each matrix, from the diagonal at `first` down.

    Rows of other columns are not moved: `exchange_and_solve` does that.

    Parameters
    ----------
    a : array, shape (batch, m, n)
        The matrices.
    pivots : array of i32, shape (batch, min(m, n))
        With which row each has changed places.
    failures : array of i32, shape (batch,)
        The first column whose pivots are all 0, counted from 1.
    moves : array of i32, shape (batch, panels, 2 * panel, 2)
        Which rows are to go where, of one panel after the other: those that come to the first
        `panel` rows, and those that leave them; -1 where there is none.
    triangles : array, shape (2, batch, panel, panel)
        L of the pivots' rows, of panels in turn, of which only what is below the diagonal counts.
    told : (array of u64, array of i32, shape (batch * panels,))
        A board, for a row of each workgroup and its place, in one of two places in turn; its words
        have smaller marks than those of these columns, whose numbers, counted from 1, are theirs.
        And how many workgroups have loaded a panel; zeros before.
    where : (int, int, int, int)
        The panel's first row, which is its first column, the column behind its last, how many
        workgroups hold it, and its number among those of `moves`: the one before it, if there is
        one, is taken into account.
    """
    (first, stop, groups, number), (board, counts) = where, told
    batch, group, PANEL = kl.group_id(0) // groups, kl.group_id(0) % groups, HOLDING.panel
    width, m = stop - first, a.shape[1] - first
    before = moves[batch, kl.maximum(number - 1, 0)], triangles[(number + 1) % 2, batch]
    upper = kl.local((PANEL, PANEL), a.dtype)
    extents = group, width, m
    held = loaded_after(a[batch], upper, before, (first, extents, number > 0), HOLDING)
    slot = counts.shape[0] // a.shape[0] * batch + first // NARROWEST
    if groups > 1:
        kl.barrier()
        if kl.local_id(0) == 0:
            kl.atomic_add(counts, slot, 1, order="release")
    rows_in_turn = kl.local((2, MOST_GROUPS + 1, PANEL), a.dtype)
    places_in_turn = kl.local((2, MOST_GROUPS), kl.i32)
    count = kl.minimum(width, m)
    for k in range(count):
        best = largest(held, k, m, HOLDING)
        known = Known(rows_in_turn[k % 2], places_in_turn[k % 2])
        where_told = 2 * batch + k % 2, group, groups
        hand_over(held, best, known, board, (first + k + 1, k, *where_told), HOLDING)
        chosen, size, pivot = 0, kl.cast(_NONE, best.size.dtype), m
        for other in kl.range(groups, unroll=4):
            found, place = rank(known.rows[other, 0]), known.places[other]
            is_better = place < m and (found > size or (found == size and place < pivot))
            chosen = kl.where(is_better, other, chosen)
            size = kl.where(is_better, found, size)
            pivot = kl.where(is_better, place, pivot)
        if group == 0 and kl.local_id(0) == 0:
            pivots[batch, first + k] = first + pivot
            if size == 0 and failures[batch] == 0:
                failures[batch] = first + k + 1
        eliminate(held, known.rows[chosen], size, (k, pivot), HOLDING)
    if groups > 1:  # rows go where others may have loaded from
        if kl.local_id(0) == 0:
            while kl.atomic_load(counts, slot, order="acquire") < groups:
                pass
        kl.barrier()
    if number > 0 and group == 0:
        for index in kl.workgroup_range(PANEL * PANEL):
            i, j = index % PANEL, index // PANEL
            if j < width:
                a[batch, first - PANEL + i, first + j] = upper[i, j]
    done = first, width, m, count
    store(held, a[batch], triangles[number % 2, batch], moves[batch, number], done, HOLDING)


@function
def loaded_after(
    matrix: kl.Array,
    upper: kl.Array,
    before: tuple[kl.Array, ...],
    where: tuple[Any, ...],
    HOLDING: Holding,
) -> Any:
    """The rows of a work-item as the panel before leaves them, whose U goes to `upper`."""
    moves, (first, extents, follows), PANEL = before[0], where, HOLDING.panel
    group, width, m = extents
    SIZE = HOLDING.rows * HOLDING.items
    sources, base = kl.local(SIZE, kl.i32), group * SIZE
    for index in kl.workgroup_range(SIZE):
        sources[index] = base + index
    if follows:
        kl.barrier()
        for index in kl.workgroup_range(PANEL):
            if moves[PANEL + index, 0] >= 0:
                target = moves[PANEL + index, 1] - first - base
                if target >= 0 and target < SIZE:
                    sources[target] = moves[PANEL + index, 0] - first
        solve_above(matrix, upper, before, (first, width), HOLDING)
        kl.barrier()
    held = loaded(matrix, first, extents, HOLDING, sources)
    if follows:
        for k in kl.range(PANEL, unroll=4):
            for i in kl.static_range(HOLDING.rows):
                # Without a branch, loads are under way together; nobody asks for rows beyond.
                factor = matrix[first + kl.minimum(held.row(i), m - 1), first - PANEL + k]
                for j in kl.static_range(PANEL):
                    held.values[i, j] = held.values[i, j] - factor * upper[k, j]
    return held


@function
def solve_above(
    matrix: kl.Array,
    upper: kl.Array,
    before: tuple[kl.Array, ...],
    where: tuple[kl.Scalar, ...],
    HOLDING: Holding,
) -> None:
    """U of the panel before in the columns of this one; as `exchange_and_solve` does."""
    (moves, triangle), (first, width), PANEL, kind = before, where, HOLDING.panel, matrix.dtype
    STRIP = min(PANEL, HOLDING.items * SEGMENT // PANEL)
    lower, x = kl.local((PANEL, PANEL), kind), kl.private(SEGMENT, kind)
    for index in kl.workgroup_range(PANEL * PANEL, unroll=4):
        lower[index % PANEL, index // PANEL] = triangle[index // PANEL, index % PANEL]
    for start in kl.static_range(0, PANEL, STRIP):
        row, column = kl.local_id(0) // STRIP * SEGMENT, start + kl.local_id(0) % STRIP
        for i in kl.static_range(SEGMENT):
            x[i] = 0
            if row + i < PANEL and column < width:
                x[i] = matrix[moves[row + i, 0], first + column]
        kl.barrier()
        substitute(lower, x, PANEL, True, STRIP)
        for i in kl.static_range(SEGMENT):
            if row + i < PANEL:
                upper[row + i, column] = x[i]


@function
def loaded(
    matrix: kl.Array,
    first: kl.Scalar,
    extents: tuple[kl.Scalar, ...],
    HOLDING: Holding,
    sources: kl.Array | None = None,
) -> Any:
    """The rows of a work-item, zeros beyond the matrix and the panel.

    `sources` are rows that are loaded instead of those of a workgroup.
    """
    group, width, m = extents
    values = kl.private((HOLDING.rows, HOLDING.panel), matrix.dtype)
    held = Held(values, kl.private(HOLDING.rows, kl.i32), first_row(group, HOLDING.rows))
    for i in kl.static_range(HOLDING.rows):
        held.places[i] = source = held.row(i)
        if sources is not None:
            source = sources[kl.local_id(0) + i * kl.local_size(0)]
        for j in kl.static_range(HOLDING.panel):
            value = matrix[first + kl.minimum(source, m - 1), first + kl.minimum(j, width - 1)]
            is_inside = (held.row(i) < m) & (j < width)
            values[i, j] = kl.where(is_inside, value, kl.cast(0, matrix.dtype))
    return held


@function
def rank(x: kl.Scalar) -> Any:
    """What pivots are chosen by: NaN only where there is nothing else."""
    size = size_of(x)
    return kl.where(size == size, size, kl.cast(-1, size.dtype))


@function
def largest(held: Held, k: kl.Scalar, m: kl.Scalar, HOLDING: Holding) -> Any:
    """The best pivot among the rows of a workgroup; its place is m where all rows are done.

    Of equal ones that in the first place, as LAPACK takes.
    """
    best = Candidate(kl.cast(_NONE, held.values.dtype.real), m)
    for i in kl.static_range(HOLDING.rows):
        if held.places[i] >= k and held.row(i) < m:
            best = larger(best, Candidate(rank(held.values[i, 0]), held.places[i]))
    return kl.workgroup_reduce(larger, best)


@function
def hand_over(
    held: Held,
    best: Candidate,
    known: Known,
    board: kl.Array,
    step: tuple[kl.Scalar, ...],
    HOLDING: Holding,
) -> None:
    """All workgroups' best rows and their places become known to each.

    Of columns that are done there are zeros. The row that its own work-item hands on is put on the
    board by many.
    """
    mark, k, turn, group, groups = step
    PANEL, rows = HOLDING.panel, known.rows
    begin, zero = turn * groups * (PANEL + 1), kl.cast(0, rows.dtype)
    own = kl.where(groups > 1, MOST_GROUPS, 0)
    for i in kl.static_range(HOLDING.rows):
        if held.places[i] == best.row:
            for j in kl.static_range(PANEL):
                rows[own, j] = kl.where(j < PANEL - k, held.values[i, j], zero)
    if groups > 1:
        kl.barrier()
        for j in kl.workgroup_range(PANEL + 1):
            value = kl.cast(best.row, rows.dtype)
            if j < PANEL and best.size > _NONE:
                value = rows[own, j]
            publish(board, begin + group * (PANEL + 1) + j, value, mark)
        for index in kl.workgroup_range(groups * (PANEL + 1)):
            other, j = index // (PANEL + 1), index % (PANEL + 1)
            value = awaited(board, begin + index, mark, rows.dtype)
            if j < PANEL:
                rows[other, j] = value
            else:
                known.places[other] = kl.cast(kl.real(value), kl.i32)
    elif kl.local_id(0) == 0:
        known.places[0] = best.row
    kl.barrier()


@function
def eliminate(
    held: Held, row: kl.Array, size: kl.Scalar, step: tuple[kl.Scalar, ...], HOLDING: Holding
) -> None:
    """Rows that are no pivots less their multiples of the latest one's, a column further.

    The last columns are those of L, which are done.
    """
    (k, pivot), values = step, held.values
    zero, head = kl.cast(0, values.dtype), row[0]
    up, inverse = reciprocal_of(head, size)
    multiples = kl.private(HOLDING.rows, values.dtype)
    for i in kl.static_range(HOLDING.rows):
        place = held.places[i]
        held.places[i] = kl.where(place == pivot, k, kl.where(place == k, pivot, place))
        below, value = held.places[i] > k, values[i, 0]
        factor = kl.where(below, value * up * inverse, value)
        multiples[i] = kl.where(below, factor, zero)
        values[i, 0] = factor
    for i in kl.static_range(HOLDING.rows):
        factor = values[i, 0]
        for j in kl.static_range(1, HOLDING.panel):
            values[i, j - 1] = values[i, j] - multiples[i] * row[j]
        values[i, HOLDING.panel - 1] = factor


@function
def store(
    held: Held,
    matrix: kl.Array,
    triangle: kl.Array,
    moves: kl.Array,
    extents: tuple[kl.Scalar, ...],
    HOLDING: Holding,
) -> None:
    """Stores rows where they belong, L of pivots, and which rows are to move."""
    first, width, m, count = extents
    PANEL = HOLDING.panel
    for i in kl.static_range(HOLDING.rows):
        row, place = held.row(i), held.places[i]
        for j in kl.static_range(PANEL):
            column = (j + count) % PANEL
            if row < m and column < width:
                matrix[first + place, first + column] = held.values[i, j]
            if place < PANEL:
                triangle[place, column] = held.values[i, j]
        moved = kl.where(place < PANEL, place, PANEL + row)
        if place < PANEL or row < PANEL:
            moves[moved, 0] = kl.where(row < m, first + row, -1)
            moves[moved, 1] = first + place
        if row < PANEL and place < PANEL:
            moves[PANEL + row, 0] = -1


@kernel
def exchange_and_solve(
    a: kl.Array,
    moves: kl.Array,
    triangles: kl.Array,
    where: tuple[kl.Scalar, ...],
    *,
    STRIP: int,
    COUNT: int,
) -> None:
    """Brings rows where panels' pivots want them, and makes rows right of the last one those of U.

    A workgroup reads what changes places in a strip of columns, and then writes it; then work-items
    solve for some rows of a column each, as in `triangle_kernels.solve_segments`. Work-items: at
    least ``STRIP COUNT / SEGMENT``. Local memory: ``COUNT (2 STRIP + COUNT) + 2 SEGMENT STRIP``
    elements.

    Parameters
    ----------
    a : array, shape (batch, m, n)
        The matrices.
    moves : array of i32, shape (batch, panels, 2 * COUNT, 2)
        As of `eliminate_in_registers`, of one panel after the other.
    triangles : array, shape (batch, COUNT, COUNT)
        As of `eliminate_in_registers`, of the last one.
    where : (int, int, int, int)
        The last panel's first column and the one behind its last, right of which is solved for;
        the first column that rows are exchanged in, and the one behind the last.
    """
    first, stop, begin, end = where
    strips = (end - begin + STRIP - 1) // STRIP
    batch, start = kl.group_id(0) // strips, begin + kl.group_id(0) % strips * STRIP
    matrix, kind = a[batch], a.dtype
    held, lower = kl.local((2 * COUNT, STRIP), kind), kl.local((COUNT, COUNT), kind)
    if stop < end:
        for index in kl.workgroup_range(COUNT * COUNT, unroll=4):
            i, k = index // COUNT, index % COUNT
            lower[k, i] = triangles[batch, i, k] if first + i < stop else kl.cast(0, kind)
    for panel in range(moves.shape[1]):
        for index in kl.workgroup_range(2 * COUNT * STRIP, unroll=4):
            column, source = start + index % STRIP, moves[batch, panel, index // STRIP, 0]
            if column < end and source >= 0:
                held[index // STRIP, index % STRIP] = matrix[source, column]
        kl.barrier()
        for index in kl.workgroup_range(2 * COUNT * STRIP, unroll=4):
            column, source = start + index % STRIP, moves[batch, panel, index // STRIP, 0]
            if column < end and source >= 0:
                target = moves[batch, panel, index // STRIP, 1]
                matrix[target, column] = held[index // STRIP, index % STRIP]
        kl.barrier()
    row, column = first + kl.local_id(0) // STRIP * SEGMENT, start + kl.local_id(0) % STRIP
    if stop < end:
        x = kl.private(SEGMENT, kind)
        for i in kl.static_range(SEGMENT):
            x[i] = 0
            if row + i < stop and column < end:
                x[i] = matrix[row + i, column]
        substitute(lower, x, COUNT, True, STRIP)
        for i in kl.static_range(SEGMENT):
            if row + i < stop and column >= stop and column < end:
                matrix[row + i, column] = x[i]
