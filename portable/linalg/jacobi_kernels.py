"""Singular values of many small matrices at once, a workgroup each.

One-sided Jacobi rotations (M. Hestenes, J. SIAM 6 (1958)) make the columns of a matrix orthogonal;
their lengths are then the singular values. All pairs of columns come up once a sweep, in the rounds
of a tournament, whose pairs are disjoint: each is one work-item's.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.gemm_kernels import matrix_of
from portable.linalg.magnitude import power_bits, scaled_by

__all__ = ["jacobi_svdvals"]


@kernel
def jacobi_svdvals(
    a: Any, values: Any, largest: Any, *, M: int, N: int, LANES: int, SWEEPS: int, TURNED: bool
) -> None:
    """``values[i]``: the singular values of the i-th matrix of `a`, the largest first.

    ``largest[i]`` is its largest magnitude, NaN if it holds one. The matrix, or `TURNED` its
    transpose, has `N` columns, `M` rows and a number of rows of zeros that makes up vectors of
    `LANES`. Local memory: about ``M N`` elements.
    """
    kind = values.dtype
    MP = kl.cdiv(M, LANES) * LANES
    w = kl.local((N, MP if LANES > 1 else MP | 1), kind)
    lengths = kl.local(N, kind)
    going = kl.local(2, kl.i32)
    item, items, batch = kl.local_id(0), kl.local_size(0), kl.group_id(0)
    matrix = matrix_of(a, a, batch)
    for column in range(item, N, items):
        best = kl.cast(0, kind)
        for row in range(M):
            x = kl.cast(matrix[column, row] if TURNED else matrix[row, column], kind)
            best = kl.maximum(best, kl.abs(x))
            w[column, row] = x
        for row in range(M, MP):
            w[column, row] = 0
        lengths[column] = best
    if item == 0:
        going[0] = 1
        going[1] = 0
    kl.barrier()
    best = lengths[0]
    for column in range(1, N):
        best = kl.maximum(best, lengths[column])
    if item == 0:
        largest[batch] = best
    field = power_bits(best, 0)
    for column in range(item, N, items):
        for row in range(M):
            w[column, row] = scaled_by(w[column, row], field, 1)
    kl.barrier()
    for sweep in range(SWEEPS):
        if kl.workgroup_uniform(going[sweep % 2]) != 0:
            one_sweep(w, going, sweep, M, N, LANES)
        kl.barrier()
    for column in range(item, N, items):
        lengths[column] = kl.sqrt(dot(w, column, column, M, LANES))
    kl.barrier()
    for column in range(item, N, items):
        own = lengths[column]
        rank = 0
        for other in range(N):
            x = lengths[other]
            if x > own or (x == own and other < column):
                rank = rank + 1
        if own != own:
            rank = column
        values[batch, rank] = scaled_by(own, field, -1)


@function
def dot(w: Any, p: Any, q: Any, M: int, LANES: int) -> Any:
    """The product of two columns."""
    total = kl.cast(0, w.dtype)
    if LANES == 1:
        for row in kl.range(M, unroll=4):
            total = total + w[p, row] * w[q, row]
    else:
        sums = kl.splat(total, LANES)
        for row in range(0, M, LANES):
            sums = sums + kl.vload(w, p, row, lanes=LANES) * kl.vload(w, q, row, lanes=LANES)
        for lane in kl.static_range(LANES):
            total = total + sums[lane]
    return total


@function
def one_sweep(w: Any, going: Any, sweep: Any, M: int, N: int, LANES: int) -> None:
    """All rounds of a sweep; leaves in ``going`` whether another one is needed."""
    item, items = kl.local_id(0), kl.local_size(0)
    PLAYERS = (N + 1) // 2 * 2
    turned = 0
    for turn in range(PLAYERS - 1):
        for pair in range(item, PLAYERS // 2, items):
            p = (turn + pair) % (PLAYERS - 1)
            q = (turn + (PLAYERS - 1) - pair) % (PLAYERS - 1)
            if pair == 0:
                q = PLAYERS - 1
            if kl.maximum(p, q) < N and rotate(w, p, q, M, LANES):
                turned = 1
        kl.barrier()
    if item == 0:
        going[sweep % 2] = 0
    if turned != 0:
        kl.atomic_store(going, (sweep + 1) % 2, 1)


@function
def rotate(w: Any, p: Any, q: Any, M: int, LANES: int) -> Any:
    """Makes two columns orthogonal; whether they were not so already.

    In H. Rutishauser's form, Numer. Math. 9 (1966): small angles make small rounding errors.
    """
    kind = w.dtype
    ENOUGH = 2.0**-21 if kind == kl.f32 else 2.0**-50
    alpha = dot(w, p, p, M, LANES)
    beta = dot(w, q, q, M, LANES)
    gamma = dot(w, p, q, M, LANES)
    needed = kl.abs(gamma) > ENOUGH * kl.sqrt(alpha) * kl.sqrt(beta)
    if needed:
        zeta = (beta - alpha) / (2 * gamma)
        t = kl.copysign(1 / (kl.abs(zeta) + kl.sqrt(1 + zeta * zeta)), zeta)
        c = 1 / kl.sqrt(1 + t * t)
        s = c * t
        turn = s / (1 + c)
        if LANES == 1:
            for row in kl.range(M, unroll=4):
                x, y = w[p, row], w[q, row]
                w[p, row] = x - s * (y + turn * x)
                w[q, row] = y + s * (x - turn * y)
        else:
            for row in range(0, M, LANES):
                first = kl.vload(w, p, row, lanes=LANES)
                second = kl.vload(w, q, row, lanes=LANES)
                kl.vstore(w, p, row, first - s * (second + turn * first))
                kl.vstore(w, q, row, second + s * (first - turn * second))
    return needed
