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

from typing import Any, NamedTuple

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.parts import absolute_square, conjugate, real_part
from portable.linalg.base.sums import lane_sum
from portable.linalg.factorisations.shared_panel_kernels import meet
from portable.linalg.reflectors.householder import reflector_of
from portable.linalg.singular_values.direct_kernels import with_number, zeros_up_to
from portable.linalg.spectral.step_kernels import (
    StepShape,
    both_added,
    line_sums,
    multiply_rows,
    total_of,
)

__all__ = ["Tridiagonal", "tridiagonalize"]


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
    column : array, shape (count, pitch)
        The column of which the next reflector is made.
    products : array, shape (count, pitch + 2 block)
        The matrix times the last reflector's v, zeros up to `pitch`, and the panel's lines times
        that.
    shares : array, shape (count, 2, groups)
        Each workgroup's part of the squares behind the column's first element, and of ``v^H A v``.
    """

    d: Any
    e: Any
    vectors: Any
    factors: Any
    column: Any
    products: Any
    shares: Any


@kernel
def tridiagonalize(
    work: Any, out: Tridiagonal, counts: Any, panel: Any, first: Any, last: Any, *, SHAPE: StepShape
) -> None:
    """Makes phases `first` to ``last - 1`` of a panel; dimension 1 is the matrices.

    Phase 0 makes the first panel's first column, ``2 s + 1`` multiplies with the s-th reflector of
    a panel, and ``2 s + 2`` makes the column after it.

    `work` has shape ``(count, n + 4 block, pitch)``: columns are whole vectors, made up with zeros.
    Behind the matrix lie the panel's lines: v and w of each reflector in turn, conjugated, and then
    w and v in turn, with zeros at first.
    """
    own = kl.group_id(1)
    mine = Tridiagonal(
        out.d[own],
        out.e[own],
        out.vectors[own],
        out.factors[own],
        out.column[own],
        out.products[own],
        out.shares[own],
    )
    for phase in range(first, last):
        if phase > first:
            meet(counts[own], panel, phase - first, SHAPE.groups)
        made = phase // 2
        if phase % 2 == 0:
            make_column(work[own], mine, panel * SHAPE.block + made, made, SHAPE)
        else:
            make_products(work[own], mine, panel * SHAPE.block + made, made, SHAPE)


@function
def make_column(a: Any, out: Tridiagonal, k: Any, made: Any, SHAPE: StepShape) -> None:
    """Column `k`, of which so many of the panel's reflectors are to be taken, and the last one's w.

    That is ``tau (A v - V (W^H v) - W (V^H v)) - tau/2 (v^H p) v``, p being what is before the last
    term.
    """
    kind, real, n = a.dtype, a.dtype.real, out.d.shape[0]
    BEHIND = out.column.shape[0]
    coefficients = kl.local((2, 2 * SHAPE.block), kind)
    lines = 2 * (made - 1)
    tau, inner, head = kl.cast(0, real), kl.cast(0, real), kl.cast(0, kind)
    if made > 0:
        tau = out.factors[k - 1]
        energy, product = kl.cast(0, real), kl.cast(0, kind)
        for part in range(kl.local_id(0), SHAPE.groups, SHAPE.items):
            energy = energy + out.shares[1, part]
        for line in range(kl.local_id(0), lines, SHAPE.items):
            other = line + 1 - line % 2 * 2
            dot = conjugate(out.products[BEHIND + other])
            coefficients[0, line], coefficients[1, line] = dot, conjugate(a[n + other, k])
            product = product + a[n + line, k] * dot
            energy = energy - real_part(out.products[BEHIND + line] * dot)
        energy, product = kl.workgroup_reduce(both_added, (energy, product))
        inner = energy * (tau * tau * 0.5)
        head = tau * (out.products[k] - conjugate(product)) - inner
    else:
        for behind in range(n - 1 + kl.local_id(0), out.factors.shape[0], SHAPE.items):
            if kl.group_id(0) == 0:
                out.factors[behind], out.e[behind] = 0, 0
    kl.barrier()
    WIDTH = SHAPE.team * SHAPE.across
    parts = kl.local((SHAPE.teams, 2, WIDTH), kind)
    squares = kl.splat(kl.cast(0, real), SHAPE.across)
    begin = k // SHAPE.lanes * SHAPE.lanes + kl.group_id(0) * WIDTH
    for at in range(begin, a.shape[1], SHAPE.groups * WIDTH):
        i = at + kl.local_id(0) % SHAPE.team * SHAPE.across
        sums = line_sums(a, (n, kl.maximum(lines, 0)), i, coefficients, parts, SHAPE)
        if i < a.shape[1] and kl.local_id(0) < SHAPE.team:
            x = column_part(a, out, (k, made), i, sums, (tau, inner, head), SHAPE)
            squares = squares + absolute_square(x)
        kl.barrier()
    total = kl.workgroup_reduce(kl.add, lane_sum(squares))
    if kl.local_id(0) == 0:
        out.shares[0, kl.group_id(0)] = total


@function
def column_part(
    a: Any, out: Tridiagonal, step: Any, i: Any, sums: Any, last: Any, SHAPE: StepShape
) -> Any:
    """A vector of w, and one of the column, given what the panel's lines take of them.

    Returns what is behind the column's first element.
    """
    ACROSS, n = SHAPE.across, out.d.shape[0]
    (k, made), (tau, inner, head) = step, last
    x = kl.vload(a, k, i, lanes=ACROSS)
    if made > 0:
        line = n + 2 * (made - 1)
        v = conjugate(kl.vload(a, line, i, lanes=ACROSS))
        w = tau * (kl.vload(out.products, i, lanes=ACROSS) - conjugate(sums[0])) - inner * v
        if i < k:
            w = zeros_up_to(w, k - 1 - i)
        kl.vstore(a, line + 1, i, conjugate(w))
        kl.vstore(a, line + 2 * SHAPE.block, i, w)
        x = x - sums[1] - conjugate(v) * head - conjugate(w)
    x = conjugate(x)
    if i <= k:
        x = zeros_up_to(x, k - 1 - i)
        for lane in kl.static_range(ACROSS):
            if i + lane == k:
                out.d[k] = real_part(x if ACROSS == 1 else x[lane])
    kl.vstore(out.column, i, x)
    if i <= k + 1:
        x = zeros_up_to(x, k + 1 - i)
    return x


@function
def make_products(a: Any, out: Tridiagonal, k: Any, made: Any, SHAPE: StepShape) -> None:
    """The reflector of column `k`, and the matrix and the panel's lines times that."""
    n, at, BEHIND = out.d.shape[0], k + 1, out.column.shape[0]
    tail = total_of(out.shares[0], SHAPE)
    beta, tau, factor = reflector_of(out.column[at], tail)
    if kl.group_id(0) == 0 and kl.local_id(0) == 0:
        out.e[k], out.factors[k] = beta, tau
    LANES, step = SHAPE.lanes, SHAPE.groups * SHAPE.items * SHAPE.lanes
    number = kl.group_id(0) * SHAPE.items + kl.local_id(0)
    for i in range(at // LANES * LANES + number * LANES, a.shape[1], step):
        v = factor * kl.vload(out.column, i, lanes=LANES)
        if i <= at:
            v = with_number(zeros_up_to(v, at - i), at - i, kl.cast(1, v.dtype))
        kl.vstore(a, n + 2 * made, i, conjugate(v))
        kl.vstore(a, n + 2 * SHAPE.block + 2 * made + 1, i, v)
        for lane in kl.static_range(LANES):
            if i + lane < n:
                out.vectors[k, i + lane] = v if LANES == 1 else v[lane]
    end, energy = n + 2 * made, kl.cast(0, tail.dtype)
    STEP = SHAPE.groups * SHAPE.teams * SHAPE.rows
    sums = kl.private(SHAPE.rows, a.dtype)
    for base in range(at, end, STEP):
        row = base + (kl.local_id(0) // SHAPE.team * SHAPE.groups + kl.group_id(0)) * SHAPE.rows
        multiply_rows(a, (row, end), out.column, at, sums, SHAPE)
        for r in kl.static_range(SHAPE.rows):
            if row + r < end and kl.local_id(0) % SHAPE.team == 0:
                y = factor * sums[r] + a[row + r, at]
                if row + r < n:
                    v = kl.where(row + r == at, kl.cast(1, a.dtype), factor * out.column[row + r])
                    energy = energy + real_part(conjugate(v) * y)
                    out.products[row + r] = y
                else:
                    out.products[BEHIND + row + r - n] = y
    energy = kl.workgroup_reduce(kl.add, energy)
    if kl.local_id(0) == 0:
        out.shares[1, kl.group_id(0)] = energy
