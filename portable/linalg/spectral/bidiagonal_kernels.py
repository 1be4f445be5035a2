"""The kernels that reduce matrices to bidiagonal form, and keep the reflectors.

Householder reflectors eliminate a column and a row in turn (G. Golub, W. Kahan, J. SIAM Numer.
Anal. 2 (1965)). They are made in panels: inside one the matrix stays as it is, and what its
reflectors have to do to it, ``A - v y^H - x u^H`` each pair of them, is taken of the columns, rows
and products that are wanted; at the end a product of matrices does it to the rest (J. Dongarra, S.
Hammarling, D. Sorensen, J. Comput. Appl. Math. 27 (1989)). So a step reads what is left of the
matrix twice.

A step has four phases, after which all workgroups meet, or which are a launch each. Then each of
them has a part of the rows, or columns.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.parts import absolute_square, conjugate
from portable.linalg.base.sums import lane_sum
from portable.linalg.factorisations.shared_panel_kernels import meet
from portable.linalg.reflectors.householder import reflector_of
from portable.linalg.singular_values.direct_kernels import (
    DirectShape,
    KeptReflectors,
    Scratch,
    make_steps,
    with_number,
    zeros_up_to,
)
from portable.linalg.spectral.step_kernels import StepShape, line_sums, multiply_rows, total_of

__all__ = ["Bidiagonal", "bidiagonalize_in_panels", "bidiagonalize_keeping"]


class Bidiagonal(NamedTuple):
    """What steps leave and what they hand on, each with a first dimension of the matrices.

    Attributes
    ----------
    d, e : array, shape (count, n)
        The diagonal and what is beside it.
    left, right : array, shape (count, reflectors, m) and (count, reflectors, n)
        Row k is the vector of the k-th reflector of columns from its element k on, which is 1, or
        that of rows from ``k + 1`` on; zeros elsewhere, which they are before.
    left_factors, right_factors : array, shape (count, reflectors)
        The tau of ``I - tau v v^H``, real; 0 where none is needed.
    tall : array, shape (count, 2 block, height)
        The panel's v and x in turn; columns are whole vectors, made up with zeros.
    column, line : array, shape (count, height) and (count, pitch)
        Conjugates of the column and of the row of which the next reflectors are made.
    parts : array, shape (count, groups, pitch)
        Parts of the products of columns with the last reflector's conjugated v.
    dots : array, shape (count, 2 block)
        The rows of `tall` times that.
    products : array, shape (count, height + 2 block)
        Rows times the last reflector's u, zeros up to `height`, and the panel's lines times it.
    shares : array, shape (count, 2, groups)
        Each workgroup's part of the squares behind the first element of the column, and of the row.
    """

    d: Any
    e: Any
    left: Any
    right: Any
    left_factors: Any
    right_factors: Any
    tall: Any
    column: Any
    line: Any
    parts: Any
    dots: Any
    products: Any
    shares: Any


@kernel
def bidiagonalize_in_panels(
    work: Any, out: Bidiagonal, counts: Any, panel: Any, first: Any, last: Any, *, SHAPE: StepShape
) -> None:
    """Makes phases `first` to ``last - 1`` of a panel; dimension 1 is the matrices.

    Phase 0 makes the first panel's first column. The s-th pair of reflectors of a panel takes four:
    ``4 s + 1`` multiplies columns with the column's reflector, ``4 s + 2`` makes the row, ``4 s +
    3`` multiplies rows with the row's reflector, ``4 s + 4`` makes the column after it.

    `work` has shape ``(count, m + 2 block, pitch)``: columns are whole vectors, made up with zeros.
    Behind the matrix lie the panel's lines, y and u in turn, conjugated, with zeros at first.
    """
    own = kl.group_id(1)
    mine = Bidiagonal(
        out.d[own],
        out.e[own],
        out.left[own],
        out.right[own],
        out.left_factors[own],
        out.right_factors[own],
        out.tall[own],
        out.column[own],
        out.line[own],
        out.parts[own],
        out.dots[own],
        out.products[own],
        out.shares[own],
    )
    for phase in range(first, last):
        if phase > first:
            meet(counts[own], panel, phase - first, SHAPE.groups)
        which = phase % 4
        made = phase // 4
        k = panel * SHAPE.block + made
        if which == 0:
            make_column(work[own], mine, k, made, SHAPE)
        elif which == 1:
            multiply_columns(work[own], mine, k, made, SHAPE)
        elif which == 2:
            make_row(work[own], mine, k, made, SHAPE)
        else:
            multiply_by_row(work[own], mine, k, made, SHAPE)


@kernel
def bidiagonalize_keeping(
    a: Any,
    scratch: Scratch,
    d: Any,
    e: Any,
    kept: KeptReflectors,
    first: Any,
    last: Any,
    *,
    SHAPE: DirectShape,
) -> None:
    """As `bidiagonalize`, for work-items that have a core each; dimension 1 is the matrices.

    Each array has a first dimension more, of these. Panels take two cores three times as long for
    1000 columns: they read the matrix twice, and what they take off columns and rows is as much
    again where all is in a cache.
    """
    own = kl.group_id(1)
    sums = None if scratch.sums is None else scratch.sums[own]
    mine = Scratch(scratch.left[own], scratch.right[own], sums, scratch.totals[own])
    reflectors = KeptReflectors(kept.rows[own], kept.taus[own], kept.factors[own])
    make_steps(a[own], mine, (d[own], e[own]), reflectors, first, last, SHAPE)


@function
def make_column(a: Any, out: Bidiagonal, k: Any, made: Any, SHAPE: StepShape) -> None:
    """Column `k`, of which so many pairs of the panel's are to be taken, and the last one's x.

    That is ``tau (A u - V (Y^H u) - X (U^H u))``.
    """
    kind, real, m, HEIGHT = a.dtype, a.dtype.real, out.left.shape[1], out.column.shape[0]
    coefficients = kl.local((2, 2 * SHAPE.block), kind)
    lines, tau = kl.maximum(2 * made - 1, 0), kl.cast(0, real)
    if made > 0:
        tau = out.right_factors[k - 1]
        for line in range(kl.local_id(0), lines, SHAPE.items):
            coefficients[0, line] = out.products[HEIGHT + line]
            coefficients[1, line] = a[m + line, k]
    else:
        n = out.d.shape[0]
        for behind in range(n - 1 + kl.local_id(0), out.left_factors.shape[0], SHAPE.items):
            if kl.group_id(0) == 0:
                out.right_factors[behind] = 0
                if behind >= n:
                    out.left_factors[behind] = 0
    kl.barrier()
    WIDTH, ACROSS = SHAPE.team * SHAPE.across, SHAPE.across
    parts = kl.local((SHAPE.teams, 2, WIDTH), kind)
    squares = kl.splat(kl.cast(0, real), ACROSS)
    begin = k // SHAPE.lanes * SHAPE.lanes + kl.group_id(0) * WIDTH
    for at in range(begin, HEIGHT, SHAPE.groups * WIDTH):
        i = at + kl.local_id(0) % SHAPE.team * ACROSS
        sums = line_sums(out.tall, (0, lines), i, coefficients, parts, SHAPE)
        if i < HEIGHT and kl.local_id(0) < SHAPE.team:
            value = gathered(a, (i, m), k, SHAPE) - sums[1]
            if made > 0:
                x = tau * (kl.vload(out.products, i, lanes=ACROSS) - sums[0])
                if i < k:
                    x = zeros_up_to(x, k - 1 - i)
                kl.vstore(out.tall, 2 * made - 1, i, x)
                value = value - x
            squares = squares + kept_squares(out.column, value, i, k, SHAPE)
        kl.barrier()
    total = kl.workgroup_reduce(kl.add, lane_sum(squares))
    if kl.local_id(0) == 0:
        out.shares[0, kl.group_id(0)] = total


@function
def kept_squares(line: Any, x: Any, i: Any, at: Any, SHAPE: StepShape) -> Any:
    """Stores conjugates of what is not before `at`; the squares of what is behind that."""
    if i <= at:
        x = zeros_up_to(x, at - 1 - i)
    kl.vstore(line, i, conjugate(x))
    if i <= at:
        x = zeros_up_to(x, at - i)
    return absolute_square(x)


@function
def gathered(a: Any, rows: Any, column: Any, SHAPE: StepShape) -> Any:
    """Elements of a column from a row on, zeros behind the last row."""
    i, m = rows
    scratch = kl.private(SHAPE.across, a.dtype)
    for lane in kl.static_range(SHAPE.across):
        value = a[kl.minimum(i + lane, m - 1), column]
        scratch[lane] = kl.where(i + lane < m, value, value * 0)
    return kl.vload(scratch, 0, lanes=SHAPE.across)


@function
def taken_reflector(stored: Any, at: Any, tail: Any, factors: Any, beside: Any, k: Any) -> Any:
    """By what the conjugates behind the first one are multiplied to be the reflector's."""
    beta, tau, factor = reflector_of(conjugate(stored[at]), tail)
    if kl.group_id(0) == 0 and kl.local_id(0) == 0:
        beside[k], factors[k] = beta, tau
    return conjugate(factor)


@function
def multiply_columns(a: Any, out: Bidiagonal, k: Any, made: Any, SHAPE: StepShape) -> None:
    """The reflector of column `k`; the matrix' columns, and the lines of `tall`, times that."""
    m, LANES = out.left.shape[1], SHAPE.lanes
    tail = total_of(out.shares[0], SHAPE)
    factor = taken_reflector(out.column, k, tail, out.left_factors, out.d, k)
    number = kl.group_id(0) * SHAPE.items + kl.local_id(0)
    step = SHAPE.groups * SHAPE.items * LANES
    for i in range(k // LANES * LANES + number * LANES, out.column.shape[0], step):
        v = vector_part(out.column, i, k, factor, SHAPE)
        v = conjugate(v)
        kl.vstore(out.tall, 2 * made, i, v)
        for lane in kl.static_range(LANES):
            if i + lane < m:
                out.left[k, i + lane] = v if LANES == 1 else v[lane]
    sums = kl.private(SHAPE.rows, a.dtype)
    for base in range(0, 2 * made, SHAPE.groups * SHAPE.teams * SHAPE.rows):
        row = base + (kl.local_id(0) // SHAPE.team * SHAPE.groups + kl.group_id(0)) * SHAPE.rows
        multiply_rows(out.tall, (row, 2 * made), out.column, k, sums, SHAPE)
        for r in kl.static_range(SHAPE.rows):
            if row + r < 2 * made and kl.local_id(0) % SHAPE.team == 0:
                out.dots[row + r] = factor * sums[r] + out.tall[row + r, k]
    add_columns(a, out, k, factor, SHAPE)


@function
def vector_part(stored: Any, i: Any, at: Any, factor: Any, SHAPE: StepShape) -> Any:
    """A reflector's vector, or its conjugate: zeros up to `at`, and there 1."""
    v = factor * kl.vload(stored, i, lanes=SHAPE.lanes)
    if i <= at:
        v = with_number(zeros_up_to(v, at - i), at - i, kl.cast(1, v.dtype))
    return v


@function
def column_blocks(pitch: Any, rows: Any, k: Any, SHAPE: StepShape) -> Any:
    """How many blocks of columns there are behind column `k`, and how many parts of the rows."""
    WIDTH = SHAPE.team * SHAPE.lanes
    blocks = (pitch - (k + 1) // SHAPE.lanes * SHAPE.lanes + WIDTH - 1) // WIDTH
    most = kl.minimum(SHAPE.groups // kl.maximum(blocks, 1), rows // (8 * SHAPE.teams))
    return blocks, kl.maximum(most, 1)


@function
def add_columns(a: Any, out: Bidiagonal, k: Any, factor: Any, SHAPE: StepShape) -> None:
    """Parts of the products of columns behind `k` with the column's reflector, conjugated.

    Teams take the rows of a part in turn.
    """
    kind, m, LANES, TEAM, TEAMS = a.dtype, out.left.shape[1], SHAPE.lanes, SHAPE.team, SHAPE.teams
    team, lane = kl.local_id(0) // TEAM, kl.local_id(0) % TEAM
    blocks, parts = column_blocks(a.shape[1], m - k, k, SHAPE)
    room = kl.local((TEAMS, TEAM * LANES), kind)
    for number in range(kl.group_id(0), blocks * parts, SHAPE.groups):
        part = number // blocks
        j = (k + 1) // LANES * LANES + (number % blocks * TEAM + lane) * LANES
        total = kl.splat(kl.cast(0, kind), LANES)
        if j < a.shape[1]:
            for i in kl.range(k + 1 + part * TEAMS + team, m, parts * TEAMS, unroll=8):
                total = total + kl.vload(a, i, j, lanes=LANES) * out.column[i]
        kl.vstore(room, team, lane * LANES, total)
        kl.barrier()
        if team == 0 and j < a.shape[1]:
            for other in kl.static_range(1, TEAMS):
                total = total + kl.vload(room, other, lane * LANES, lanes=LANES)
            total = factor * total
            if part == 0:
                total = total + kl.vload(a, k, j, lanes=LANES)
            kl.vstore(out.parts, part, j, total)
        kl.barrier()


@function
def make_row(a: Any, out: Bidiagonal, k: Any, made: Any, SHAPE: StepShape) -> None:
    """Row `k`, of which as many pairs and the column's reflector are to be taken, and that one's y.

    That is ``tau (A^H v - Y (V^H v) - U (X^H v))``.
    """
    kind, m, PITCH, ACROSS = a.dtype, out.left.shape[1], a.shape[1], SHAPE.across
    coefficients = kl.local((2, 2 * SHAPE.block), kind)
    tau = out.left_factors[k]
    for line in range(kl.local_id(0), 2 * made, SHAPE.items):
        coefficients[0, line] = out.dots[line]
        coefficients[1, line] = out.tall[line, k]
    kl.barrier()
    WIDTH = SHAPE.team * ACROSS
    parts = kl.local((SHAPE.teams, 2, WIDTH), kind)
    _, count = column_blocks(PITCH, m - k, k, SHAPE)
    squares = kl.splat(kl.cast(0, tau.dtype), ACROSS)
    begin = (k + 1) // SHAPE.lanes * SHAPE.lanes + kl.group_id(0) * WIDTH
    for at in range(begin, PITCH, SHAPE.groups * WIDTH):
        j = at + kl.local_id(0) % SHAPE.team * ACROSS
        sums = line_sums(a, (m, 2 * made), j, coefficients, parts, SHAPE)
        if j < PITCH and kl.local_id(0) < SHAPE.team:
            y = kl.splat(kl.cast(0, kind), ACROSS)
            for part in kl.range(count, unroll=SHAPE.unrolled):
                y = y + kl.vload(out.parts, part, j, lanes=ACROSS)
            y = tau * (y - sums[0])
            if j <= k:
                y = zeros_up_to(y, k - j)
            kl.vstore(a, m + 2 * made, j, y)
            x = kl.vload(a, k, j, lanes=ACROSS) - sums[1] - y
            squares = squares + kept_squares(out.line, x, j, k + 1, SHAPE)
        kl.barrier()
    total = kl.workgroup_reduce(kl.add, lane_sum(squares))
    if kl.local_id(0) == 0:
        out.shares[1, kl.group_id(0)] = total


@function
def multiply_by_row(a: Any, out: Bidiagonal, k: Any, made: Any, SHAPE: StepShape) -> None:
    """The reflector of row `k`, and the matrix' rows, and the panel's lines, times that."""
    m, n, at, LANES = out.left.shape[1], out.right.shape[1], k + 1, SHAPE.lanes
    tail = total_of(out.shares[1], SHAPE)
    factor = taken_reflector(out.line, at, tail, out.right_factors, out.e, k)
    number = kl.group_id(0) * SHAPE.items + kl.local_id(0)
    step = SHAPE.groups * SHAPE.items * LANES
    for j in range(at // LANES * LANES + number * LANES, a.shape[1], step):
        u = vector_part(out.line, j, at, factor, SHAPE)
        kl.vstore(a, m + 2 * made + 1, j, conjugate(u))
        for lane in kl.static_range(LANES):
            if j + lane < n:
                out.right[k, j + lane] = u if LANES == 1 else u[lane]
    end, sums = m + 2 * made + 1, kl.private(SHAPE.rows, a.dtype)
    for base in range(at, end, SHAPE.groups * SHAPE.teams * SHAPE.rows):
        row = base + (kl.local_id(0) // SHAPE.team * SHAPE.groups + kl.group_id(0)) * SHAPE.rows
        multiply_rows(a, (row, end), out.line, at, sums, SHAPE)
        for r in kl.static_range(SHAPE.rows):
            if row + r < end and kl.local_id(0) % SHAPE.team == 0:
                behind = kl.where(row + r < m, row + r, out.column.shape[0] + row + r - m)
                out.products[behind] = factor * sums[r] + a[row + r, at]
