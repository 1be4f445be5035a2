"""Panels of LU that a workgroup eliminates in registers, and what they leave to the other columns.

Rows stay where they are, and each work-item holds some: which row a pivot is of is kept beside
them, so that a panel of many columns moves each row once, in the end. The panel is worked on from
the left, a few columns at a time, which is what registers have room for: these are first changed by
the columns before them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.factorisations.panel_kernels import size_of

_SMALLEST: Final = 2.0**-120
"""Pivots from which on reciprocals do not overflow, in all precisions."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What work-items hold of a panel, a constant of the kernels.

    Attributes
    ----------
    rows : int
        Rows of each.
    columns : int
        Columns that they hold at a time; divides `panel`.
    panel : int
        Columns of the panel.
    """

    rows: int
    columns: int
    panel: int


@dataclass(frozen=True)
class Held:
    """The rows of a work-item.

    Attributes
    ----------
    values : array, shape (rows, columns)
        What it holds of them.
    places : array of i32, shape (rows,)
        Where exchanges have brought them, counted from the panel's first row.
    """

    values: Any
    places: Any


@dataclass(frozen=True)
class Pivots:
    """What a workgroup knows of pivots, in local memory.

    Attributes
    ----------
    rows : array of i32, shape (panel,)
        Where they lie, counted from the panel's first row.
    lower : array, shape (panel, panel)
        Their part of L.
    upper : array, shape (panel, columns)
        Their part of U in the columns that are held.
    latest : array, shape (2, columns)
        The latest ones' rows, in turn.
    places : array of i32, shape (2,)
        Where exchanges had brought these rows, in turn.
    """

    rows: Any
    lower: Any
    upper: Any
    latest: Any
    places: Any


@kernel
def eliminate_in_registers(
    a: kl.Array,
    pivots: kl.Array,
    failures: kl.Array,
    moves: kl.Array,
    triangles: kl.Array,
    first: kl.Scalar,
    stop: kl.Scalar,
    *,
    HOLDING: Holding,
) -> None:
    """``P A = L U`` of up to `panel` columns of each matrix, from the diagonal at `first` down.

    Rows are not moved: `exchange_and_solve` does that.

    Parameters
    ----------
    a : array, shape (batch, m, n)
        The matrices.
    pivots : array of i32, shape (batch, min(m, n))
        With which row each has changed places.
    failures : array of i32, shape (batch,)
        The first column whose pivots are all 0, counted from 1.
    moves : array of i32, shape (batch, 2 * panel + 1, 2)
        Which rows are to go where; in the last place how many do.
    triangles : array, shape (batch, panel, panel)
        L of the pivots' rows, of which only what is below the diagonal counts.
    first, stop : int
        The panel's first row, which is its first column, and the column behind its last.
    """
    batch = kl.group_id(0)
    width, m = stop - first, a.shape[1] - first
    matrix, kind = a[batch], a.dtype
    ROWS, COLUMNS, PANEL = HOLDING.rows, HOLDING.columns, HOLDING.panel
    held = Held(kl.private((ROWS, COLUMNS), kind), kl.private(ROWS, kl.i32))
    known = Pivots(
        kl.local(PANEL, kl.i32),
        kl.local((PANEL, PANEL), kind),
        kl.local((PANEL, COLUMNS), kind),
        kl.local((2, COLUMNS), kind),
        kl.local(2, kl.i32),
    )
    if kl.local_id(0) == 0:
        known.places[0] = m
        known.places[1] = m
    for i in kl.static_range(ROWS):
        held.places[i] = row_of(i)
    for entry in kl.workgroup_range(PANEL * PANEL):
        known.lower[entry // PANEL, entry % PANEL] = 0
    for begin in range(0, width, COLUMNS):
        solve_above(known, matrix, first, begin, COLUMNS)
        load_columns(held, known, matrix, first, begin, HOLDING)
        for step in range(COLUMNS):
            k = begin + step
            if k < kl.minimum(width, m):
                size, pivot = largest(held, known.places, (k, step, m), ROWS)
                take_pivot(held, known, (k, step, m), pivot, HOLDING)
                if kl.local_id(0) == 0:
                    pivots[batch, first + k] = first + pivot
                    if size == 0 and failures[batch] == 0:
                        failures[batch] = first + k + 1
                eliminate(held, known.latest, size, k, step, HOLDING)
            else:
                eliminate(held, known.latest, kl.cast(0, kind.real), PANEL + m, 0, HOLDING)
        store_columns(held, matrix, first, begin, width, HOLDING)
        kl.barrier()
        keep_lower(known, matrix, first, begin, kl.minimum(width, m), COLUMNS)
    for entry in kl.workgroup_range(PANEL * PANEL):
        triangles[batch, entry // PANEL, entry % PANEL] = known.lower[entry // PANEL, entry % PANEL]
    list_moves(held, moves[batch], first, m, HOLDING)


@function
def row_of(i: int) -> Any:
    """The row that a work-item holds as its i-th, counted from the panel's first."""
    return i * kl.local_size(0) + kl.local_id(0)


@function
def solve_above(
    known: Pivots, matrix: kl.Array, first: kl.Scalar, begin: kl.Scalar, COLUMNS: int
) -> None:
    """U of the pivots so far in columns from `begin` on, a work-item a column."""
    for index in kl.workgroup_range(begin * COLUMNS):
        k, j = index // COLUMNS, index % COLUMNS
        known.upper[k, j] = 0
        if first + begin + j < matrix.shape[1]:
            known.upper[k, j] = matrix[first + known.rows[k], first + begin + j]
    kl.barrier()
    if kl.local_id(0) < COLUMNS:
        j = kl.local_id(0)
        x = kl.private(COLUMNS, known.upper.dtype)
        for block in range(0, begin, COLUMNS):
            for i in kl.static_range(COLUMNS):
                x[i] = known.upper[block + i, j]
            for k in kl.range(block, unroll=1):
                for i in kl.static_range(COLUMNS):
                    x[i] = x[i] - known.lower[block + i, k] * known.upper[k, j]
            for k in kl.static_range(COLUMNS):
                for i in kl.static_range(k + 1, COLUMNS):
                    x[i] = x[i] - known.lower[block + i, block + k] * x[k]
                known.upper[block + k, j] = x[k]
    kl.barrier()


@function
def load_columns(
    held: Held,
    known: Pivots,
    matrix: kl.Array,
    first: kl.Scalar,
    begin: kl.Scalar,
    HOLDING: Holding,
) -> None:
    """Loads columns, zeros beyond the matrix, changed as the columns of the panel before want."""
    values, m = held.values, matrix.shape[0] - first
    for i in kl.static_range(HOLDING.rows):
        for j in kl.static_range(HOLDING.columns):
            values[i, j] = 0
            if row_of(i) < m and first + begin + j < matrix.shape[1]:
                values[i, j] = matrix[first + row_of(i), first + begin + j]
    factors = kl.private(HOLDING.rows, values.dtype)
    # Rows inside, whose loads are on their way together.
    for k in kl.range(begin, unroll=2):
        for i in kl.static_range(HOLDING.rows):
            factors[i] = 0
            if row_of(i) < m:
                factors[i] = matrix[first + row_of(i), first + k]
        for i in kl.static_range(HOLDING.rows):
            for j in kl.static_range(HOLDING.columns):
                values[i, j] = values[i, j] - factors[i] * known.upper[k, j]
    for i in kl.static_range(HOLDING.rows):
        if held.places[i] < begin:
            for j in kl.static_range(HOLDING.columns):
                values[i, j] = known.upper[held.places[i], j]


@function
def largest(held: Held, places: kl.Array, step: tuple[kl.Scalar, ...], ROWS: int) -> Any:
    """The largest element of the first column held, of rows that are no pivots yet, and its place.

    Of equal ones the first place, as LAPACK takes; the first of all where there is NaN.
    """
    (k, turn, m), kind = step, held.values.dtype.real
    sizes, best = kl.private(ROWS, kind), kl.cast(-1, kind)
    for i in kl.static_range(ROWS):
        sizes[i] = -1
        if held.places[i] >= k and row_of(i) < m:
            sizes[i] = size_of(held.values[i, 0])
        best = kl.maximum(best, sizes[i])
    best = kl.workgroup_reduce(kl.maximum, best)
    for i in kl.static_range(ROWS):
        if sizes[i] == best:
            kl.atomic_min(places, turn % 2, held.places[i])
    kl.barrier()
    slot = places[turn % 2]
    return best, kl.where(slot < m, slot, k)


@function
def take_pivot(
    held: Held, known: Pivots, step: Any, pivot_row: kl.Scalar, HOLDING: Holding
) -> None:
    """Hands a pivot's row to all, and notes the exchange."""
    k, turn, m = step
    for i in kl.static_range(HOLDING.rows):
        position = held.places[i]
        if position == pivot_row:
            known.rows[k] = row_of(i)
            for j in kl.static_range(HOLDING.columns):
                known.latest[turn % 2, j] = held.values[i, j]
        held.places[i] = kl.where(
            position == pivot_row, k, kl.where(position == k, pivot_row, position)
        )
    if kl.local_id(0) == 0:
        known.places[(turn + 1) % 2] = m
    kl.barrier()


@function
def eliminate(
    held: Held, latest: kl.Array, size: kl.Scalar, k: kl.Scalar, step: kl.Scalar, HOLDING: Holding
) -> None:
    """Rows that are no pivots less their multiples of the latest one's, a column further.

    The last columns are those of L, which are done.
    """
    COLUMNS, values = HOLDING.columns, held.values
    zero, left = kl.cast(0, values.dtype), COLUMNS - step
    pivot = kl.private(COLUMNS, values.dtype)
    for j in kl.static_range(COLUMNS):
        pivot[j] = kl.where(j < left, latest[step % 2, j], zero)
    inverse = kl.cast(1, values.dtype)
    if size >= kl.cast(_SMALLEST, size.dtype):
        inverse = inverse / pivot[0]
    for i in kl.static_range(HOLDING.rows):
        below, head = held.places[i] > k, values[i, 0]
        factor = kl.where(below, head * inverse, head)
        if below and size > 0 and size < kl.cast(_SMALLEST, size.dtype):
            factor = head / pivot[0]
        multiple = kl.where(below, factor, zero)
        for j in kl.static_range(1, COLUMNS):
            values[i, j - 1] = values[i, j] - multiple * pivot[j]
        values[i, COLUMNS - 1] = factor


@function
def store_columns(
    held: Held,
    matrix: kl.Array,
    first: kl.Scalar,
    begin: kl.Scalar,
    width: kl.Scalar,
    HOLDING: Holding,
) -> None:
    """Stores the columns that are held."""
    m = matrix.shape[0] - first
    for i in kl.static_range(HOLDING.rows):
        for j in kl.static_range(HOLDING.columns):
            if row_of(i) < m and begin + j < width:
                matrix[first + row_of(i), first + begin + j] = held.values[i, j]


@function
def keep_lower(
    known: Pivots,
    matrix: kl.Array,
    first: kl.Scalar,
    begin: kl.Scalar,
    count: kl.Scalar,
    COLUMNS: int,
) -> None:
    """Takes L of the pivots of some columns to local memory."""
    for index in kl.workgroup_range(COLUMNS * (begin + COLUMNS)):
        k, j = begin + index % COLUMNS, index // COLUMNS
        if k < count and j < k:
            known.lower[k, j] = matrix[first + known.rows[k], first + j]
    kl.barrier()


@function
def list_moves(
    held: Held, moves: kl.Array, first: kl.Scalar, m: kl.Scalar, HOLDING: Holding
) -> None:
    """Lists the rows that are not where exchanges bring them, in any order."""
    count = kl.local(1, kl.i32)
    if kl.local_id(0) == 0:
        count[0] = 0
    kl.barrier()
    for i in kl.static_range(HOLDING.rows):
        if row_of(i) < m and held.places[i] != row_of(i):
            slot = kl.atomic_add(count, 0, 1)
            moves[slot, 0] = first + row_of(i)
            moves[slot, 1] = first + held.places[i]
    kl.barrier()
    if kl.local_id(0) == 0:
        moves[2 * HOLDING.panel, 0] = count[0]


@kernel
def exchange_and_solve(
    a: kl.Array,
    moves: kl.Array,
    triangles: kl.Array,
    where: tuple[kl.Scalar, ...],
    strips: kl.Scalar,
    *,
    STRIP: int,
    COUNT: int,
) -> None:
    """Brings rows where a panel's pivots want them, and makes rows right of the panel those of U.

    A workgroup reads what changes places in a strip of columns, and then writes it; a work-item
    then solves for a column. Local memory: ``COUNT (2 STRIP + COUNT)`` elements.

    Parameters
    ----------
    a, moves, triangles : array
        As of `eliminate_in_registers`, for panels of `COUNT` columns.
    where : (int, int, int)
        The panel's first column, the one behind its last, and that behind the last to solve for.
    strips : int
        Strips of a matrix.
    """
    first, stop, last = where
    batch, strip = kl.group_id(0) // strips, kl.group_id(0) % strips
    matrix, moves_here, kind = a[batch], moves[batch], a.dtype
    held, lower = kl.local((2 * COUNT, STRIP), kind), kl.local((COUNT, COUNT), kind)
    for index in kl.workgroup_range(COUNT * COUNT):
        lower[index // COUNT, index % COUNT] = triangles[batch, index // COUNT, index % COUNT]
    count = moves_here[2 * COUNT, 0]
    for index in kl.workgroup_range(count * STRIP):
        column = strip * STRIP + index % STRIP
        if column < a.shape[2]:
            held[index // STRIP, index % STRIP] = matrix[moves_here[index // STRIP, 0], column]
    kl.barrier()
    for index in kl.workgroup_range(count * STRIP):
        column = strip * STRIP + index % STRIP
        if column < a.shape[2]:
            matrix[moves_here[index // STRIP, 1], column] = held[index // STRIP, index % STRIP]
    kl.barrier()
    # Not in a loop: what it hoists would not fit into registers.
    column = strip * STRIP + kl.local_id(0)
    if kl.local_id(0) < STRIP and column >= stop and column < last:
        x = kl.private(COUNT, kind)
        for i in kl.static_range(COUNT):
            x[i] = 0
            if first + i < stop:
                x[i] = matrix[first + i, column]
        for k in kl.static_range(COUNT):
            for i in kl.static_range(k + 1, COUNT):
                x[i] = x[i] - lower[i, k] * x[k]
        for i in kl.static_range(COUNT):
            if first + i < stop:
                matrix[first + i, column] = x[i]
