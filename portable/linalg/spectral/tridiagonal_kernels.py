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
from portable.linalg.singular_values.direct_kernels import DirectShape, zeros_up_to

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
        Row k is the vector of the k-th reflector, zeros up to its element k; from row n - 1 on
        zeros.
    factors : array, shape (count, reflectors)
        The tau of ``I - tau v v^H``, real; 0 where none is needed.
    products : array, shape (count, 2, pitch)
        The matrix' rows times the next column, after this step and the one before in turn.
    scratch : array, shape (count, groups, 3, pitch)
        Each workgroup's reflector, what is subtracted with it, and the next column.
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

    Of step -1 there is no reflector, and column 0 is the next one.
    """
    kind, real = a.dtype, a.dtype.real
    reflected, taken, column = out.scratch[0], out.scratch[1], out.scratch[2]
    writes = kl.group_id(0) == 0
    at = k + 1
    tau = kl.cast(0, real)
    if k >= 0:
        head = column[at]
        share = kl.cast(0, real)
        for j in range(kl.local_id(0), n, SHAPE.items):
            if j > at:
                share = share + absolute_square(column[j])
        beta, tau, factor = reflector_of(head, kl.workgroup_reduce(kl.add, share))
        inner = kl.cast(0, real)
        for j in range(kl.local_id(0), n, SHAPE.items):
            v = kl.cast(0, kind)
            p = kl.cast(0, kind)
            if j >= at:
                v = kl.where(j == at, kl.cast(1, kind), factor * column[j])
                p = tau * (conjugate(a[at, j]) + factor * out.products[k % 2, j])
            reflected[j], taken[j] = v, p
            inner = inner + real_part(conjugate(v) * p)
            if writes:
                out.vectors[k, j] = v
        inner = kl.workgroup_reduce(kl.add, inner) * (tau * 0.5)
        for j in range(kl.local_id(0), n, SHAPE.items):
            taken[j] = taken[j] - inner * reflected[j]
        if writes and kl.local_id(0) == 0:
            out.e[k] = beta
            out.factors[k] = tau
    else:
        for j in range(kl.local_id(0), out.scratch.shape[1], SHAPE.items):
            reflected[j], taken[j], column[j] = 0, 0, 0
        if writes:
            clear_last(out, n, SHAPE)
    kl.barrier()
    by, by_taken = conjugate(taken[at]), conjugate(reflected[at])
    for j in range(kl.local_id(0), n, SHAPE.items):
        x = kl.cast(0, kind)
        if j >= at:
            x = conjugate(a[at, j]) - reflected[j] * by - taken[j] * by_taken
        if j == at:
            if writes:
                out.d[at] = real_part(x)
            x = x * 0
        column[j] = x


@function
def clear_last(out: Tridiagonal, n: Any, SHAPE: DirectShape) -> None:
    """No reflectors from the last column on."""
    for k in range(n - 1, out.vectors.shape[0]):
        for j in range(kl.local_id(0), n, SHAPE.items):
            out.vectors[k, j] = 0
        if kl.local_id(0) == 0:
            out.factors[k] = 0
            out.e[k] = 0


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
            for j in range(start, a.shape[1], TEAM * LANES):
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
