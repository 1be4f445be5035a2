"""The kernels that reduce Hermitian matrices to tridiagonal form, and keep the reflectors.

Householder reflectors eliminate a column (and row) at a time (A. Householder, J. ACM 5 (1958)), in
one pass over the matrix each: a row is changed by the last reflector from both sides, and while it
is at hand multiplied with the next column, of which the next reflector is made. So each element is
read and written once a step, and a step is one launch. Every workgroup makes the reflector, and
what the matrix does to it, for itself.

A pass is shared out by rows, a block of neighbouring ones at a time to a team: neighbouring
work-items that go through the columns side by side.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.parts import absolute_square, conjugate, real_part
from portable.linalg.base.sums import lane_sum
from portable.linalg.reflectors.householder import reflector_of
from portable.linalg.singular_values.direct_kernels import DirectShape, with_number, zeros_up_to

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
    products : array, shape (count, 2, pitch)
        The matrix' rows times the next column, after this step and the one before in turn; zeros
        before.
    scratch : array, shape (count, groups, 4, pitch)
        Each workgroup's reflector, what is subtracted with it, the next column, and the matrix
        times the reflector.
    """

    d: Any
    e: Any
    vectors: Any
    factors: Any
    products: Any
    scratch: Any


@kernel
def tridiagonalize(a: Any, out: Tridiagonal, first: Any, last: Any, *, SHAPE: DirectShape) -> None:
    """Makes steps `first` to ``last - 1`` of -1 to ``n - 2``; dimension 1 is the matrices.

    Several workgroups make one step in a launch. `a` has shape ``(count, rows, pitch)``: columns
    are whole vectors, and rows whole blocks, made up with zeros; it is overwritten.
    """
    own = kl.group_id(1)
    matrix, n = a[own], out.d.shape[1]
    mine = Tridiagonal(
        out.d[own],
        out.e[own],
        out.vectors[own],
        out.factors[own],
        out.products[own],
        out.scratch[own, kl.group_id(0)],
    )
    for k in range(first, last):
        make_vectors(matrix, mine, k, n, SHAPE)
        kl.barrier()
        change_rows(matrix, mine, k, SHAPE)
        kl.barrier()


@function
def make_vectors(a: Any, out: Tridiagonal, k: Any, n: Any, SHAPE: DirectShape) -> None:
    """The reflector of column `k`, what it does to the matrix, and column ``k + 1`` after that.

    Of step -1 there is no reflector, and column 0 is the next one. Elements of vectors up to `k`
    mean nothing.
    """
    writes = kl.group_id(0) == 0
    taken_head = kl.cast(0, a.dtype)
    inner = kl.cast(0, a.dtype.real)
    if k >= 0:
        inner = make_reflector(a, out, k, n, SHAPE)
        kl.barrier()
        taken_head = out.scratch[3, k + 1] - inner
    else:
        for j in range(kl.local_id(0), out.scratch.shape[1], SHAPE.items):
            for row in kl.static_range(4):
                out.scratch[row, j] = 0
        if writes and kl.local_id(0) == 0:
            for last in range(n - 1, out.factors.shape[0]):
                out.factors[last], out.e[last] = 0, 0
        kl.barrier()
    if writes and kl.local_id(0) == 0:
        own = real_part(a[k + 1, k + 1])
        out.d[k + 1] = own - 2 * real_part(taken_head) if k >= 0 else own
    make_column(a, out, k, (inner, taken_head), SHAPE)


@function
def make_reflector(a: Any, out: Tridiagonal, k: Any, n: Any, SHAPE: DirectShape) -> Any:
    """The reflector v of column `k`, and ``tau A v``, from which the part of v is to be taken.

    Returns how much of v that is.
    """
    LANES, real = SHAPE.lanes, a.dtype.real
    reflected, column, product = out.scratch[0], out.scratch[2], out.scratch[3]
    at, step = k + 1, SHAPE.items * LANES
    begin = at // LANES * LANES + kl.local_id(0) * LANES
    share = kl.splat(kl.cast(0, real), LANES)
    for j in kl.range(begin, a.shape[1], step, unroll=SHAPE.unrolled):
        x = kl.vload(column, j, lanes=LANES)
        if j <= at:
            x = zeros_up_to(x, at - j)
        share = share + absolute_square(x)
    tail = kl.workgroup_reduce(kl.add, lane_sum(share))
    beta, tau, factor = reflector_of(column[at], tail)
    share = kl.splat(kl.cast(0, real), LANES)
    for j in kl.range(begin, a.shape[1], step, unroll=SHAPE.unrolled):
        v = factor * kl.vload(column, j, lanes=LANES)
        if j <= at:
            v = with_number(zeros_up_to(v, at - j), at - j, kl.cast(1, v.dtype))
        p = conjugate(kl.vload(a, at, j, lanes=LANES))
        p = tau * (p + factor * kl.vload(out.products, k % 2, j, lanes=LANES))
        kl.vstore(reflected, j, v)
        kl.vstore(product, j, p)
        share = share + real_part(conjugate(v) * p)
        if kl.group_id(0) == 0:
            for lane in kl.static_range(LANES):
                if j + lane < n:
                    out.vectors[k, j + lane] = v if LANES == 1 else v[lane]
    if kl.group_id(0) == 0 and kl.local_id(0) == 0:
        out.e[k], out.factors[k] = beta, tau
    return kl.workgroup_reduce(kl.add, lane_sum(share)) * (tau * 0.5)


@function
def make_column(a: Any, out: Tridiagonal, k: Any, by: Any, SHAPE: DirectShape) -> None:
    """What is subtracted with the reflector, and the next column after that.

    `by` is the part of the reflector that is to be taken of the product, and what that leaves of
    its first element.
    """
    LANES, at = SHAPE.lanes, k + 1
    inner, taken_head = by
    reflected, taken, column, product = (
        out.scratch[0],
        out.scratch[1],
        out.scratch[2],
        out.scratch[3],
    )
    begin = at // LANES * LANES + kl.local_id(0) * LANES
    for j in kl.range(begin, a.shape[1], SHAPE.items * LANES, unroll=SHAPE.unrolled):
        v = kl.vload(reflected, j, lanes=LANES)
        w = kl.vload(product, j, lanes=LANES) - inner * v
        x = conjugate(kl.vload(a, at, j, lanes=LANES)) - v * conjugate(taken_head)
        if k >= 0:
            x = x - w
        if j <= at:
            x = zeros_up_to(x, at - j)
        kl.vstore(taken, j, w)
        kl.vstore(column, j, x)


@function
def change_rows(a: Any, out: Tridiagonal, k: Any, SHAPE: DirectShape) -> None:
    """Changes the rows below ``k + 1``, and multiplies them with the next column."""
    kind, LANES, ROWS, TEAM, TEAMS = a.dtype, SHAPE.lanes, SHAPE.rows, SHAPE.team, SHAPE.teams
    team, lane = kl.local_id(0) // TEAM, kl.local_id(0) % TEAM
    reflected, taken, column = out.scratch[0], out.scratch[1], out.scratch[2]
    start = (k + 2) // LANES * LANES + lane * LANES
    own, other = kl.private(ROWS, kind), kl.private(ROWS, kind)
    sums = kl.private(ROWS, kind, lanes=LANES)
    for begin in range(k + 2, a.shape[0] - ROWS + 1, kl.num_groups(0) * TEAMS * ROWS):
        i = begin + (kl.group_id(0) * TEAMS + team) * ROWS
        there = i + ROWS <= a.shape[0]
        for r in kl.static_range(ROWS):
            sums[r] = kl.splat(kl.cast(0, kind), LANES)
            if there:
                own[r], other[r] = reflected[i + r], taken[i + r]
        if there:
            for j in kl.range(start, a.shape[1], TEAM * LANES, unroll=SHAPE.unrolled):
                v = conjugate(kl.vload(reflected, j, lanes=LANES))
                w = conjugate(kl.vload(taken, j, lanes=LANES))
                x = kl.vload(column, j, lanes=LANES)
                if j <= k + 2:
                    x = zeros_up_to(x, k + 2 - j)
                for r in kl.static_range(ROWS):
                    value = kl.vload(a, i + r, j, lanes=LANES) - own[r] * w - other[r] * v
                    kl.vstore(a, i + r, j, value)
                    sums[r] = sums[r] + value * x
        for r in kl.static_range(ROWS):
            total = kl.workgroup_reduce(kl.add, lane_sum(sums[r]), width=TEAM)
            if there and lane == 0:
                out.products[(k + 1) % 2, i + r] = total
