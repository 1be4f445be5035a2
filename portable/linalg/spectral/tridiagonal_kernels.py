"""The kernel that reduces Hermitian matrices to tridiagonal form, and keeps the reflectors.

Householder reflectors eliminate a column (and row) at a time (A. Householder, J. ACM 5 (1958)).
They are made in panels: inside one the matrix stays as it is, and what its reflectors ``I - tau v
v^H`` have to do to it, ``A - v w^H - w v^H`` each, is taken of the columns and products that are
wanted; at the end a product of matrices does it to the rest (J. Dongarra, S. Hammarling, D.
Sorensen, J. Comput. Appl. Math. 27 (1989)). So a step reads what is left of the matrix once.

A step has two phases, after which all workgroups meet, or which are a launch each. Then each of
them has a part of the rows, or columns.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.boards import meet
from portable.linalg.base.parts import absolute_square, conjugate, real_part
from portable.linalg.base.sums import lane_sum
from portable.linalg.reflectors.householder import reflector_of
from portable.linalg.reflectors.vector_products import subtract_product
from portable.linalg.singular_values.direct_kernels import with_number, zeros_up_to
from portable.linalg.spectral.step_kernels import (
    StepShape,
    both_added,
    hold_lines,
    line_sums,
    multiply_rows,
)

CHUNK: Final = 32
"""Rows that lines are taken off at a time; columns are as many, or a part of that, in whole."""


class Tridiagonal(NamedTuple):
    """What steps leave and what they hand on, each with a first dimension of the matrices.

    Attributes
    ----------
    d : array, shape (count, n)
        The diagonal, real.
    e : array, shape (count, reflectors)
        What is below it, zeros behind that.
    vectors : array, shape (count, reflectors, n)
        Row k is the vector of the k-th reflector from its element ``k + 1`` on, which is 1; zeros
        elsewhere, which they are before.
    factors : array, shape (count, reflectors)
        The tau of ``I - tau v v^H``, real; 0 where none is needed.
    columns : array, shape (count, 2, pitch)
        The columns of which this and the last reflector are made, in turn, behind their first
        elements; zeros up to these.
    heads : array, shape (count, 2)
        The first elements.
    products : array, shape (count, parts, pitch + 2 block)
        The matrix times the last column, zeros up to `pitch`, in parts that are to be added up; in
        the first part also the panel's lines times that.
    shares : array, shape (count, 3, groups)
        Each workgroup's part of the columns' squares, of this and the last one in turn, and of what
        the matrix makes of the column, times the column.
    """

    d: Any
    e: Any
    vectors: Any
    factors: Any
    columns: Any
    heads: Any
    products: Any
    shares: Any


@kernel
def tridiagonalize(
    work: kl.Array,
    out: Tridiagonal,
    counts: kl.Array,
    panel: kl.Scalar,
    first: kl.Scalar,
    last: kl.Scalar,
    *,
    SHAPE: StepShape,
) -> None:
    """Makes phases `first` to ``last - 1`` of a panel; dimension 1 is the matrices.

    Phase 0 makes the first panel's first column, ``2 s + 1`` multiplies with the s-th column of a
    panel, and ``2 s + 2`` makes its reflector and the column after it.

    `work` has shape ``(count, rows + 4 block, pitch)``: columns are whole vectors, made up with
    zeros. Behind the matrix lie the panel's lines: v and w of each reflector in turn, conjugated,
    and then w and v in turn, with zeros at first.
    """
    matrix = kl.group_id(1)
    mine = Tridiagonal(*[x[matrix] for x in out])
    for phase in range(first, last):
        if phase > first:
            meet(counts[matrix], panel, phase - first, SHAPE.groups)
        made = phase // 2
        if phase % 2 == 0:
            make_column(work[matrix], mine, panel * SHAPE.block + made, made, SHAPE)
        else:
            multiply_column(work[matrix], mine, panel * SHAPE.block + made, made, SHAPE)


class Last(NamedTuple):
    """The last reflector.

    Attributes
    ----------
    tau : real
        Of ``I - tau v v^H``.
    factor : number
        By which its column is multiplied to be v.
    inner : real
        How often v is taken of ``tau A v`` to make w.
    head : number
        The first element of w.
    """

    tau: Any
    factor: Any
    inner: Any
    head: Any


@function
def first_line(a: kl.Array, SHAPE: StepShape) -> Any:
    """The row behind the matrix, in which a panel's lines begin."""
    return a.shape[0] - 4 * SHAPE.block


@function
def product_at(out: Tridiagonal, i: kl.Scalar, LANES: int) -> Any:
    """Elements of the product with the last column."""
    total = kl.vload(out.products, 0, i, lanes=LANES)
    for part in range(1, out.products.shape[0]):
        total = total + kl.vload(out.products, part, i, lanes=LANES)
    return total


@function
def make_column(
    a: kl.Array, out: Tridiagonal, k: kl.Scalar, made: kl.Scalar, SHAPE: StepShape
) -> None:
    """Column `k`, of which so many of the panel's reflectors are to be taken, and the last one's w.

    That is ``tau (A v - V (W^H v) - W (V^H v)) - tau/2 (v^H p) v``, p being what is before the last
    term.
    """
    kind, real, n, ACROSS = a.dtype, a.dtype.real, out.d.shape[0], SHAPE.across
    WIDTH, lines = SHAPE.team * ACROSS, (first_line(a, SHAPE), kl.maximum(2 * made - 2, 0))
    coefficients = kl.local((2, 2 * SHAPE.block), kind)
    held, parts = (
        kl.private(SHAPE.held, kind, lanes=ACROSS),
        kl.local((SHAPE.teams, 2, WIDTH), kind),
    )
    begin = k // SHAPE.lanes * SHAPE.lanes + kl.group_id(0) * WIDTH
    first = kl.local_id(0) % SHAPE.team * ACROSS
    hold_lines(a, lines, begin + first, held, SHAPE)
    zero = kl.cast(0, real)
    last = Last(zero, kl.cast(0, kind), zero, kl.cast(0, kind))
    if made > 0:
        last = last_reflector(a, out, k, lines, coefficients, SHAPE)
    else:
        for behind in range(n - 1 + kl.local_id(0), out.factors.shape[0], SHAPE.items):
            if kl.group_id(0) == 0:
                out.factors[behind], out.e[behind] = 0, 0
    kl.barrier()
    squares = kl.splat(zero, ACROSS)
    for at in range(begin, a.shape[1], SHAPE.groups * WIDTH):
        i = at + first
        sums = line_sums(a, lines, i, coefficients, (held, parts), SHAPE)
        if i < a.shape[1] and kl.local_id(0) < SHAPE.team:
            squares = squares + column_part(a, out, (k, made), i, sums, last, SHAPE)
        hold_lines(a, lines, i + SHAPE.groups * WIDTH, held, SHAPE)
        kl.barrier()
    total = kl.workgroup_reduce(kl.add, lane_sum(squares))
    if kl.local_id(0) == 0:
        out.shares[k % 2, kl.group_id(0)] = total


@function
def last_reflector(
    a: kl.Array,
    out: Tridiagonal,
    k: kl.Scalar,
    lines: tuple[kl.Scalar, ...],
    coefficients: kl.Array,
    SHAPE: StepShape,
) -> Last:
    """The reflector of column ``k - 1``, and what the panel's lines are multiplied with for it."""
    BEHIND, old, kind = out.columns.shape[1], (k + 1) % 2, a.dtype
    begin, count = lines
    tail, energy = kl.cast(0, kind.real), kl.cast(0, kind.real)
    for part in range(kl.local_id(0), SHAPE.groups, SHAPE.items):
        tail, energy = tail + out.shares[old, part], energy + out.shares[2, part]
    alpha, top, corner = out.heads[old], product_at(out, k, 1), real_part(a[k, k])
    tail, energy = kl.workgroup_reduce(both_added, (tail, energy))
    beta, tau, factor = reflector_of(alpha, tail)
    if kl.group_id(0) == 0 and kl.local_id(0) == 0:
        out.e[k - 1], out.factors[k - 1] = beta, tau
    top = factor * top
    energy = corner + 2 * real_part(top) + absolute_square(factor) * energy
    share, product = kl.cast(0, kind.real), kl.cast(0, kind)
    for line in range(kl.local_id(0), count, SHAPE.items):
        other = line + 1 - line % 2 * 2
        mine, its = a[begin + line, k], a[begin + other, k]
        dot = conjugate(factor * out.products[0, BEHIND + other] + its)
        coefficients[0, line], coefficients[1, line] = dot, conjugate(its)
        product = product + mine * dot
        share = share - real_part((factor * out.products[0, BEHIND + line] + mine) * dot)
    share, product = kl.workgroup_reduce(both_added, (share, product))
    inner = (energy + share) * (tau * tau * 0.5)
    return Last(tau, factor, inner, tau * (top + corner - conjugate(product)) - inner)


@function
def column_part(
    a: kl.Array,
    out: Tridiagonal,
    step: tuple[kl.Scalar, ...],
    i: kl.Scalar,
    sums: tuple[kl.Scalar, ...],
    last: Last,
    SHAPE: StepShape,
) -> Any:
    """Vectors of v, w and the column, given what the panel's lines take of them.

    Returns the squares of what is behind the column's first element.
    """
    ACROSS, n = SHAPE.across, out.d.shape[0]
    k, made = step
    x = kl.vload(a, k, i, lanes=ACROSS)
    if made > 0:
        line = first_line(a, SHAPE) + 2 * (made - 1)
        v = last.factor * kl.vload(out.columns, (k + 1) % 2, i, lanes=ACROSS)
        y = last.factor * product_at(out, i, ACROSS) + conjugate(x)
        w = last.tau * (y - conjugate(sums[0])) - last.inner * v
        if i <= k:
            v = with_number(v, k - i, kl.cast(1, v.dtype))
            w = with_number(zeros_up_to(w, k - i), k - i, last.head)
        kl.vstore(a, line, i, conjugate(v))
        kl.vstore(a, line + 1, i, conjugate(w))
        kl.vstore(a, line + 2 * SHAPE.block, i, w)
        kl.vstore(a, line + 2 * SHAPE.block + 1, i, v)
        for lane in kl.static_range(ACROSS):
            if i + lane < n:
                out.vectors[k - 1, i + lane] = v if ACROSS == 1 else v[lane]
        x = x - sums[1] - conjugate(v) * last.head - conjugate(w)
    x = conjugate(x)
    if i <= k + 1:
        for lane in kl.static_range(ACROSS):
            element = x if ACROSS == 1 else x[lane]
            if i + lane == k:
                out.d[k] = real_part(element)
            if i + lane == k + 1:
                out.heads[k % 2] = element
        x = zeros_up_to(x, k + 1 - i)
    kl.vstore(out.columns, k % 2, i, x)
    return absolute_square(x)


@function
def multiply_column(
    a: kl.Array, out: Tridiagonal, k: kl.Scalar, made: kl.Scalar, SHAPE: StepShape
) -> None:
    """The matrix, and the panel's lines, times column `k` behind its first element."""
    at, BEHIND, LINES = k + 1, out.columns.shape[1], first_line(a, SHAPE)
    column, end, energy = out.columns[k % 2], LINES + 2 * made, kl.cast(0, a.dtype.real)
    if SHAPE.items == 1:
        at, energy = LINES, multiply_triangle(a, column, out.products[kl.group_id(0)], k, SHAPE)
    sums = kl.private(SHAPE.rows, a.dtype)
    for base in range(at, end, SHAPE.groups * SHAPE.teams * SHAPE.rows):
        row = base + (kl.local_id(0) // SHAPE.team * SHAPE.groups + kl.group_id(0)) * SHAPE.rows
        multiply_rows(a, (row, end), column, k + 1, sums, SHAPE)
        for r in kl.static_range(SHAPE.rows):
            if row + r < end and kl.local_id(0) % SHAPE.team == 0:
                if row + r < LINES:
                    energy = energy + real_part(conjugate(column[row + r]) * sums[r])
                    out.products[0, row + r] = sums[r]
                else:
                    out.products[0, BEHIND + row + r - LINES] = sums[r]
    energy = kl.workgroup_reduce(kl.add, energy)
    if kl.local_id(0) == 0:
        out.shares[2, kl.group_id(0)] = energy


@function
def multiply_triangle(
    a: kl.Array, x: kl.Array, out: kl.Array, k: kl.Scalar, SHAPE: StepShape
) -> Any:
    """A work-item's part of the product with column `k`, by the upper triangle.

    An element that is read is multiplied for its row and for its column, in blocks of rows that are
    the same work-item's in every step. Returns what the column and its part are multiplied.
    """
    LANES, ROWS, kind, end = SHAPE.lanes, SHAPE.rows, a.dtype, x.shape[0]
    for j in range((k + 1) // LANES * LANES, end, LANES):
        kl.vstore(out, j, kl.splat(kl.cast(0, kind), LANES))
    totals, factors = kl.private(ROWS, kind, lanes=LANES), kl.private(ROWS, kind)
    begun = (k + 1) // ROWS
    ahead = (kl.group_id(0) + SHAPE.groups - begun % SHAPE.groups) % SHAPE.groups
    for row in range((begun + ahead) * ROWS, first_line(a, SHAPE), SHAPE.groups * ROWS):
        for r in kl.static_range(ROWS):
            totals[r] = kl.splat(kl.cast(0, kind), LANES)
            factors[r] = kl.where(row + r > k, x[row + r], kl.cast(0, kind))
        corner = row // LANES * LANES
        for part in kl.static_range(max(1, ROWS // LANES)):
            j = corner + part * LANES
            y = kl.vload(out, j, lanes=LANES)
            for r in kl.static_range(ROWS):
                value = zeros_up_to(kl.vload(a, row + r, j, lanes=LANES), row + r - j)
                totals[r] = totals[r] + value * kl.vload(x, j, lanes=LANES)
                y = y + conjugate(value) * factors[r]
            kl.vstore(out, j, y)
        for j in range(corner + max(ROWS, LANES), end, LANES):
            y, by = kl.vload(out, j, lanes=LANES), kl.vload(x, j, lanes=LANES)
            for r in kl.static_range(ROWS):
                value = kl.vload(a, row + r, j, lanes=LANES)
                totals[r] = totals[r] + value * by
                y = y + conjugate(value) * factors[r]
            kl.vstore(out, j, y)
        for r in kl.static_range(ROWS):
            total = lane_sum(totals[r]) + a[row + r, row + r] * factors[r]
            out[row + r] = out[row + r] + total
    energy = kl.splat(kl.cast(0, kind.real), LANES)
    for j in range((k + 1) // LANES * LANES, end, LANES):
        y = conjugate(kl.vload(x, j, lanes=LANES)) * kl.vload(out, j, lanes=LANES)
        energy = energy + real_part(y)
    return lane_sum(energy)


@kernel
def take_lines(work: kl.Array, stop: kl.Scalar, *, SHAPE: StepShape, STRIP: int) -> None:
    """Takes the lines of a panel off the upper triangle from row `stop` on.

    A work-item has a strip of columns; dimension 1 is the matrices.
    """
    a, LINES = work[kl.group_id(1)], 2 * SHAPE.block
    begin, column = first_line(a, SHAPE), a.shape[1] - (kl.group_id(0) + 1) * STRIP
    lines = kl.local((LINES, STRIP), a.dtype)
    for i in range(LINES):
        for j in kl.static_range(0, STRIP, SHAPE.lanes):
            kl.vstore(lines, i, j, kl.vload(a, begin + i, column + j, lanes=SHAPE.lanes))
    for row in range(stop // CHUNK * CHUNK, column + STRIP, CHUNK):
        left = a[begin + LINES : begin + 2 * LINES, row : row + CHUNK].T
        rest = a[row : row + CHUNK, column : column + STRIP]
        subtract_product(rest, left, lines, SHAPE.lanes)
