"""Products of many matrices of one shape, such as Winograd's method makes of transformed tiles."""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["multiply_many", "sum_many"]

NOWHERE: Final = 2**30
"""Beyond every matrix; a power of two, so that what begins there is known to be aligned."""


@kernel
def multiply_many(
    a: Any,
    b: Any,
    out: Any,
    *,
    BM: int,
    BN: int,
    BK: int,
    STAGES: int,
    RUN: int,
    UNITS: bool,
    SPLIT: bool,
    DOWN: bool,
    ACC: Any,
) -> None:
    """``out[s, e, g] = a[s, e, g] @ b[s, e, g]``, a workgroup per ``BM x BN`` tile of ``RUN`` s.

    Of `a` or `b` there may be one for all s. Tiles follow each other down a matrix where `DOWN`,
    else across it, then over s, so that what they share stays in the last-level cache. The ring of
    ``STAGES`` tiles is that of `portable.linalg.gemm_kernels.gemm_tiles`; it goes on from one s to
    the next, so that the next matrix is on its way while a result is written. Where factors may be
    `SPLIT`, matrix units multiply single precision. Local memory: ``STAGES (BM + BN) BK``
    elements, and padding.
    """
    m, n, k = out.shape[3], out.shape[4], a.shape[4]
    runs = kl.cdiv(out.shape[0], RUN)
    s, e, g, row, column = tile_of_many(out, runs, BM, BN, DOWN)
    s = s * RUN
    count, deep = kl.minimum(out.shape[0] - s, RUN), kl.cdiv(k, BK)
    AHEAD = STAGES - 1
    tile_a, tile_b = kl.local((STAGES, BM, BK), a.dtype), kl.local((STAGES, BK, BN), b.dtype)
    acc = kl.matrix((BM, BN), ACC, scope="workgroup", units=UNITS, split=SPLIT)
    for stage in kl.static_range(AHEAD):
        here, start = step_of_run(stage, s, count, deep, BK)
        left, right = matrix_of(a, here, e, g), matrix_of(b, here, e, g)
        kl.copy_async(tile_a[stage], left[row : row + BM, start : start + BK])
        kl.copy_async(tile_b[stage], right[start : start + BK, column : column + BN])
        kl.copy_commit()
    for i in range(count):
        acc.fill(0)
        for step in range(deep):
            if AHEAD > 0:
                kl.copy_wait(AHEAD - 1)
                kl.barrier()
            ahead = i * deep + step + AHEAD
            slot = ahead % STAGES
            here, start = step_of_run(ahead, s, count, deep, BK)
            left, right = matrix_of(a, here, e, g), matrix_of(b, here, e, g)
            kl.copy_async(tile_a[slot], left[row : row + BM, start : start + BK])
            kl.copy_async(tile_b[slot], right[start : start + BK, column : column + BN])
            kl.copy_commit()
            if AHEAD == 0:
                kl.copy_wait(0)
                kl.barrier()
            now = (i * deep + step) % STAGES
            kl.mma(acc, tile_a[now], tile_b[now], valid=(m - row, n - column, k - step * BK))
            if STAGES == 1:
                kl.barrier()
        acc.store(out[s + i, e, g, row : row + BM, column : column + BN])


@function
def step_of_run(step: Any, s: Any, count: Any, deep: Any, BK: int) -> Any:
    """The matrix and the first k of a step; beyond the last matrix of the run nothing is there."""
    i = step // deep
    return s + i, kl.where(i < count, step % deep * BK, NOWHERE)


@function
def matrix_of(x: Any, s: Any, e: Any, g: Any) -> Any:
    """One of many matrices, or of those that are there for all s."""
    return x[kl.minimum(s, x.shape[0] - 1), e, g]


@function
def tile_of_many(out: Any, runs: Any, BM: int, BN: int, DOWN: bool) -> Any:
    """The numbers of this workgroup's run and matrix, and the first row and column of its tile."""
    rows, columns = kl.cdiv(out.shape[3], BM), kl.cdiv(out.shape[4], BN)
    tile, matrix = kl.group_id(0) % (rows * columns), kl.group_id(0) // (rows * columns)
    row, column = (tile % rows, tile // rows) if DOWN else (tile // columns, tile % columns)
    s, batch = matrix % runs, matrix // runs
    return s, batch // out.shape[2], batch % out.shape[2], row * BM, column * BN


@kernel
def sum_many(
    a: Any,
    b: Any,
    out: Any,
    *,
    BM: int,
    BN: int,
    BK: int,
    STAGES: int,
    UNITS: bool,
    SPLIT: bool,
    ACC: Any,
) -> None:
    """``out[s, e, g]`` is the sum of ``a[i, e, g] @ b[i, e, g]`` over the i of part s.

    Each part but the last has as many, the number of them over that of parts rounded up; a
    workgroup per ``BM x BN`` tile of each. Otherwise as `multiply_many`.
    """
    m, n, k = out.shape[3], out.shape[4], a.shape[4]
    s, e, g, row, column = tile_of_many(out, out.shape[0], BM, BN, True)
    each = kl.cdiv(a.shape[0], out.shape[0])
    first = s * each
    deep = kl.cdiv(k, BK)
    steps = kl.maximum(kl.minimum(each, a.shape[0] - first), 0) * deep
    AHEAD = STAGES - 1
    tile_a, tile_b = kl.local((STAGES, BM, BK), a.dtype), kl.local((STAGES, BK, BN), b.dtype)
    acc = kl.matrix((BM, BN), ACC, scope="workgroup", units=UNITS, split=SPLIT)
    acc.fill(0)
    for stage in kl.static_range(AHEAD):
        i, start = first + stage // deep, stage % deep * BK
        kl.copy_async(tile_a[stage], a[i, e, g, row : row + BM, start : start + BK])
        kl.copy_async(tile_b[stage], b[i, e, g, start : start + BK, column : column + BN])
        kl.copy_commit()
    for step in range(steps):
        if AHEAD > 0:
            kl.copy_wait(AHEAD - 1)
            kl.barrier()
        ahead = step + AHEAD
        slot, i, start = ahead % STAGES, first + ahead // deep, ahead % deep * BK
        kl.copy_async(tile_a[slot], a[i, e, g, row : row + BM, start : start + BK])
        kl.copy_async(tile_b[slot], b[i, e, g, start : start + BK, column : column + BN])
        kl.copy_commit()
        if AHEAD == 0:
            kl.copy_wait(0)
            kl.barrier()
        now = step % STAGES
        left = k - step % deep * BK
        kl.mma(acc, tile_a[now], tile_b[now], valid=(m - row, n - column, left))
        if STAGES == 1:
            kl.barrier()
    acc.store(out[s, e, g, row : row + BM, column : column + BN])
