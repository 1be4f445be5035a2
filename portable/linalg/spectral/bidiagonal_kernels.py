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
from portable.linalg.base.boards import meet
from portable.linalg.base.parts import absolute_square, conjugate
from portable.linalg.reflectors.householder import reflector_of
from portable.linalg.singular_values.direct_kernels import (
    with_number,
)
from portable.linalg.spectral.step_kernels import (
    StepShape,
    hold_lines,
    line_sums,
    multiply_rows,
    total_of,
)


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
        Conjugates of the column and of the row of which the next reflectors are made, behind their
        first elements; zeros up to these.
    heads : array, shape (count, 2)
        The first elements, of the column and of the row.
    parts : array, shape (count, groups, pitch)
        Parts of the products of the matrix' columns with `column`.
    dots : array, shape (count, 2 block)
        The rows of `tall` times that.
    products : array, shape (count, height + 2 block)
        The matrix' rows times `line`, zeros up to `height`, and the panel's lines times that.
    shares : array, shape (count, 2, groups)
        Each workgroup's part of the squares of `column` and `line`.
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
    heads: Any
    parts: Any
    dots: Any
    products: Any
    shares: Any


@kernel
def bidiagonalize_in_panels(
    work: kl.Array,
    out: Bidiagonal,
    counts: kl.Array,
    panel: kl.Scalar,
    first: kl.Scalar,
    last: kl.Scalar,
    *,
    SHAPE: StepShape,
) -> None:
    """Makes phases `first` to ``last - 1`` of a panel; dimension 1 is the matrices.

    Phase 0 makes the first panel's first column. The s-th pair of reflectors of a panel takes four:
    ``4 s + 1`` multiplies with the column, ``4 s + 2`` makes its reflector and the row, ``4 s + 3``
    multiplies with the row, ``4 s + 4`` makes its reflector and the column after it.

    `work` has shape ``(count, m + 2 block, pitch)``: columns are whole vectors, made up with zeros.
    Behind the matrix lie the panel's lines, y and u in turn, conjugated, with zeros at first.
    """
    matrix = kl.group_id(1)
    mine = Bidiagonal(*[x[matrix] for x in out])
    kind = work.dtype
    room = (
        kl.local((2, 2 * SHAPE.block), kind),
        kl.local((SHAPE.teams, 2, SHAPE.team), kind),
    )
    for phase in range(first, last):
        if phase > first:
            meet(counts[matrix], panel, phase - first, SHAPE.groups)
        which, made = phase % 4, phase // 4
        k = panel * SHAPE.block + made
        if which == 0:
            make_column(work[matrix], mine, (k, made), room, SHAPE)
        elif which == 1:
            multiply_column(work[matrix], mine, k, made, SHAPE)
        elif which == 2:
            make_row(work[matrix], mine, (k, made), room, SHAPE)
        else:
            multiply_row(work[matrix], mine, k, made, SHAPE)


@function
def make_column(a: kl.Array, out: Bidiagonal, step: Any, room: Any, SHAPE: StepShape) -> None:
    """Column `k`, of which so many of the panel's pairs are to be taken, and the last's u and x.

    That is ``tau (A u - V (Y^H u) - X (U^H u))``.
    """
    kind, m, HEIGHT, WIDTH = a.dtype, out.left.shape[1], out.column.shape[0], SHAPE.team
    (k, made), (coefficients, parts) = step, room
    lines, held = (0, kl.maximum(2 * made - 1, 0)), kl.private(SHAPE.held, kind)
    begin = k // SHAPE.lanes * SHAPE.lanes + kl.group_id(0) * WIDTH
    first = kl.local_id(0) % SHAPE.team
    hold_lines(out.tall, lines, begin + first, held, SHAPE)
    tau, factor = kl.cast(0, kind.real), kl.cast(0, kind)
    if made > 0:
        beta, tau, factor = made_reflector(out.heads[1], out.shares[1], SHAPE)
        if kl.group_id(0) == 0 and kl.local_id(0) == 0:
            out.e[k - 1], out.right_factors[k - 1] = beta, tau
        for line in range(kl.local_id(0), lines[1], SHAPE.items):
            mine = a[m + line, k]
            coefficients[0, line] = factor * out.products[HEIGHT + line] + mine
            coefficients[1, line] = mine
        put_row_reflector(a, out, k, made, factor, SHAPE)
    else:
        n = out.d.shape[0]
        for behind in range(n - 1 + kl.local_id(0), out.left_factors.shape[0], SHAPE.items):
            if kl.group_id(0) == 0:
                out.right_factors[behind] = 0
                if behind >= n:
                    out.left_factors[behind] = 0
    kl.barrier()
    squares = kl.cast(0, kind.real)
    for at in range(begin, HEIGHT, SHAPE.groups * WIDTH):
        i = at + first
        value = kl.cast(0, kind)
        if i < m:
            value = a[i, k]
        sums = line_sums(out.tall, lines, i, coefficients, (held, parts), SHAPE)
        if i < HEIGHT and kl.local_id(0) < SHAPE.team:
            if made > 0:
                x = tau * (factor * out.products[i] + value - sums[0])
                x = kl.where(i < k, kl.cast(0, kind), x)
                out.tall[2 * made - 1, i] = x
                value = value - x
            squares = squares + kept_square((out.column, out.heads, 0), value - sums[1], i, k)
        hold_lines(out.tall, lines, i + SHAPE.groups * WIDTH, held, SHAPE)
        kl.barrier()
    total = kl.workgroup_reduce(kl.add, squares)
    if kl.local_id(0) == 0:
        out.shares[0, kl.group_id(0)] = total


@function
def made_reflector(head: kl.Scalar, shares: kl.Array, SHAPE: StepShape) -> Any:
    """``(beta, tau, factor)`` of a vector, of which conjugates behind the head are multiplied."""
    beta, tau, factor = reflector_of(head, total_of(shares, SHAPE))
    return beta, tau, conjugate(factor)


@function
def put_row_reflector(
    a: kl.Array, out: Bidiagonal, k: kl.Scalar, made: kl.Scalar, factor: kl.Scalar, SHAPE: StepShape
) -> None:
    """Stores u of row ``k - 1``, and its conjugate among the panel's lines."""
    LANES, m, n = SHAPE.lanes, out.left.shape[1], out.right.shape[1]
    number = kl.group_id(0) * SHAPE.items + kl.local_id(0)
    step = SHAPE.groups * SHAPE.items * LANES
    for j in range(k // LANES * LANES + number * LANES, a.shape[1], step):
        u = vector_part(out.line, j, k, factor, SHAPE)
        kl.vstore(a, m + 2 * made - 1, j, conjugate(u))
        for lane in kl.static_range(LANES):
            if j + lane < n:
                out.right[k - 1, j + lane] = u if LANES == 1 else u[lane]


@function
def vector_part(
    stored: kl.Array, i: kl.Scalar, at: kl.Scalar, factor: kl.Scalar, SHAPE: StepShape
) -> Any:
    """A reflector's vector, or its conjugate: zeros up to `at`, and there 1."""
    v = factor * kl.vload(stored, i, lanes=SHAPE.lanes)
    if i <= at:
        v = with_number(v, at - i, kl.cast(1, v.dtype))
    return v


@function
def kept_square(kept: Any, x: kl.Scalar, i: kl.Scalar, at: kl.Scalar) -> Any:
    """Stores the head at `at` and conjugates of what is behind it; the square of that."""
    stored, heads, column = kept
    if i == at:
        heads[column] = x
    x = kl.where(i <= at, kl.cast(0, x.dtype), x)
    stored[i] = conjugate(x)
    return absolute_square(x)


@function
def multiply_column(
    a: kl.Array, out: Bidiagonal, k: kl.Scalar, made: kl.Scalar, SHAPE: StepShape
) -> None:
    """The matrix' columns, and the rows of `tall`, times column `k`."""
    sums = kl.private(SHAPE.rows, a.dtype)
    for base in range(0, 2 * made, SHAPE.groups * SHAPE.teams * SHAPE.rows):
        row = base + (kl.local_id(0) // SHAPE.team * SHAPE.groups + kl.group_id(0)) * SHAPE.rows
        multiply_rows(out.tall, (row, 2 * made), out.column, k, sums, SHAPE)
        for r in kl.static_range(SHAPE.rows):
            if row + r < 2 * made and kl.local_id(0) % SHAPE.team == 0:
                out.dots[row + r] = sums[r]
    add_columns(a, out, k, SHAPE)


@function
def column_blocks(pitch: kl.Scalar, rows: kl.Scalar, k: kl.Scalar, SHAPE: StepShape) -> Any:
    """How many blocks of columns there are behind column `k`, and how many parts of the rows."""
    WIDTH = SHAPE.team * SHAPE.lanes
    blocks = (pitch - (k + 1) // SHAPE.lanes * SHAPE.lanes + WIDTH - 1) // WIDTH
    most = kl.minimum(SHAPE.groups // kl.maximum(blocks, 1), rows // (8 * SHAPE.teams))
    return blocks, kl.maximum(most, 1)


@function
def add_columns(a: kl.Array, out: Bidiagonal, k: kl.Scalar, SHAPE: StepShape) -> None:
    """Parts of the products of columns behind `k` with `out.column`.

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
            kl.vstore(out.parts, part, j, total)
        kl.barrier()


@function
def make_row(a: kl.Array, out: Bidiagonal, step: Any, room: Any, SHAPE: StepShape) -> None:
    """Row `k`, of which as many pairs and the column's reflector are to be taken, and its v and y.

    That is ``tau (A^H v - Y (V^H v) - U (X^H v))``.
    """
    kind, m, PITCH, WIDTH = a.dtype, out.left.shape[1], a.shape[1], SHAPE.team
    (k, made), (coefficients, parts) = step, room
    lines, held = (m, 2 * made), kl.private(SHAPE.held, kind)
    begin = (k + 1) // SHAPE.lanes * SHAPE.lanes + kl.group_id(0) * WIDTH
    first = kl.local_id(0) % SHAPE.team
    hold_lines(a, lines, begin + first, held, SHAPE)
    beta, tau, factor = made_reflector(out.heads[0], out.shares[0], SHAPE)
    if kl.group_id(0) == 0 and kl.local_id(0) == 0:
        out.d[k], out.left_factors[k] = beta, tau
    for line in range(kl.local_id(0), lines[1], SHAPE.items):
        mine = out.tall[line, k]
        coefficients[0, line], coefficients[1, line] = factor * out.dots[line] + mine, mine
    put_column_reflector(out, k, made, factor, SHAPE)
    kl.barrier()
    _, count = column_blocks(PITCH, m - k, k, SHAPE)
    squares = kl.cast(0, kind.real)
    for at in range(begin, PITCH, SHAPE.groups * WIDTH):
        j = at + first
        sums = line_sums(a, lines, j, coefficients, (held, parts), SHAPE)
        if j < PITCH and kl.local_id(0) < SHAPE.team:
            x, y = a[k, j], kl.cast(0, kind)
            for part in kl.range(count, unroll=SHAPE.unrolled):
                y = y + out.parts[part, j]
            y = tau * (factor * y + x - sums[0])
            y = kl.where(j <= k, kl.cast(0, kind), y)
            a[m + 2 * made, j] = y
            kept = out.line, out.heads, 1
            squares = squares + kept_square(kept, x - sums[1] - y, j, k + 1)
        hold_lines(a, lines, j + SHAPE.groups * WIDTH, held, SHAPE)
        kl.barrier()
    total = kl.workgroup_reduce(kl.add, squares)
    if kl.local_id(0) == 0:
        out.shares[1, kl.group_id(0)] = total


@function
def put_column_reflector(
    out: Bidiagonal, k: kl.Scalar, made: kl.Scalar, factor: kl.Scalar, SHAPE: StepShape
) -> None:
    """Stores v of column `k`."""
    LANES, m = SHAPE.lanes, out.left.shape[1]
    number = kl.group_id(0) * SHAPE.items + kl.local_id(0)
    step = SHAPE.groups * SHAPE.items * LANES
    for i in range(k // LANES * LANES + number * LANES, out.column.shape[0], step):
        v = conjugate(vector_part(out.column, i, k, factor, SHAPE))
        kl.vstore(out.tall, 2 * made, i, v)
        for lane in kl.static_range(LANES):
            if i + lane < m:
                out.left[k, i + lane] = v if LANES == 1 else v[lane]


@function
def multiply_row(
    a: kl.Array, out: Bidiagonal, k: kl.Scalar, made: kl.Scalar, SHAPE: StepShape
) -> None:
    """The matrix' rows, and the panel's lines, times row `k`."""
    m, at = out.left.shape[1], k + 1
    end, sums = m + 2 * made + 1, kl.private(SHAPE.rows, a.dtype)
    for base in range(at, end, SHAPE.groups * SHAPE.teams * SHAPE.rows):
        row = base + (kl.local_id(0) // SHAPE.team * SHAPE.groups + kl.group_id(0)) * SHAPE.rows
        multiply_rows(a, (row, end), out.line, at, sums, SHAPE)
        for r in kl.static_range(SHAPE.rows):
            if row + r < end and kl.local_id(0) % SHAPE.team == 0:
                behind = kl.where(row + r < m, row + r, out.column.shape[0] + row + r - m)
                out.products[behind] = sums[r]
