"""Products of many matrices of one shape, such as Winograd's method makes of transformed tiles."""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.tiling import Tiling

__all__ = ["multiply_many"]

NOWHERE: Final = 2**30
"""Beyond every matrix; a power of two, so that what begins there is known to be aligned."""


@kernel
def multiply_many(
    a: Any, b: Any, out: Any, summed: Any, *, TILING: Tiling, RUN: int, DOWN: bool, ACC: Any
) -> None:
    """``out[s, e, g] = a[s, e, g] @ b[s, e, g]``, a workgroup per tile of ``RUN`` s.

    Where `summed` is not None, ``out[s, e, g]`` is the sum of the products of part s of all
    matrices, and a workgroup makes a tile of one of them; each part but the last has as many, their
    number over that of the parts rounded up. Of what all matrices sum over, one after the other,
    the first `summed` count.

    Of `a` or `b` there may be one for all s. Tiles follow each other down a matrix where `DOWN`,
    else across it, then over s, so that what they share stays in the last-level cache. The ring of
    operand tiles goes on from one s to the next, so that the next matrix is on its way while a
    result is written. It is not that of `portable.linalg.products.operand_ring`, with which 18
    layers take 14.0 to 14.4 instead of 13.5 to 13.8 ms on an H200 through NVIDIA's OpenCL, and as
    long through CUDA: there the next step's first operands are loaded before this one's last are
    multiplied. Local memory: ``stages (rows + columns) depth`` elements, and padding.
    """
    BM, BN, BK, STAGES = TILING.rows, TILING.columns, TILING.depth, TILING.stages
    m, n, k = out.shape[3], out.shape[4], a.shape[4]
    many = kl.maximum(a.shape[0], b.shape[0])
    SUMS = summed is not None
    each = kl.cdiv(many, out.shape[0]) if SUMS else RUN
    parts = out.shape[0] if SUMS else kl.cdiv(many, RUN)
    part, e, g, row, column = tile_of_many(out, parts, TILING, DOWN)
    first = part * each
    count, deep = kl.maximum(kl.minimum(many - first, each), 0), kl.cdiv(k, BK)
    results, steps = count, deep
    if SUMS:
        rest = kl.maximum(summed - first * k, 0)
        results, steps = 1, kl.minimum(count * deep, rest // k * deep + kl.cdiv(rest % k, BK))
    AHEAD = STAGES - 1
    tile_a, tile_b = kl.local((STAGES, BM, BK), a.dtype), kl.local((STAGES, BK, BN), b.dtype)
    acc = kl.matrix((BM, BN), ACC, scope="workgroup", units=TILING.units, split=TILING.split)
    for stage in kl.static_range(AHEAD):
        s, start = step_of_run(stage, first, count, deep, BK)
        left, right = matrix_of(a, s, e, g), matrix_of(b, s, e, g)
        kl.copy_async(tile_a[stage], left[row : row + BM, start : start + BK])
        kl.copy_async(tile_b[stage], right[start : start + BK, column : column + BN])
        kl.copy_commit()
    for i in range(results):
        acc.fill(0)
        for step in range(i * steps, (i + 1) * steps):
            if AHEAD > 0:
                kl.copy_wait(AHEAD - 1)
                kl.barrier()
            ahead = (step + AHEAD) % STAGES
            s, start = step_of_run(step + AHEAD, first, count, deep, BK)
            left, right = matrix_of(a, s, e, g), matrix_of(b, s, e, g)
            kl.copy_async(tile_a[ahead], left[row : row + BM, start : start + BK])
            kl.copy_async(tile_b[ahead], right[start : start + BK, column : column + BN])
            kl.copy_commit()
            if AHEAD == 0:
                kl.copy_wait(0)
                kl.barrier()
            now, left_over = step % STAGES, k - step % deep * BK
            kl.mma(acc, tile_a[now], tile_b[now], valid=(m - row, n - column, left_over))
            if STAGES == 1:
                kl.barrier()
        acc.store(out[part if SUMS else first + i, e, g, row : row + BM, column : column + BN])


@function
def step_of_run(step: Any, first: Any, count: Any, deep: Any, BK: int) -> Any:
    """The matrix and the first k of a step; beyond the last matrix of the run nothing is there."""
    i = step // deep
    return first + i, kl.where(i < count, step % deep * BK, NOWHERE)


@function
def matrix_of(x: Any, s: Any, e: Any, g: Any) -> Any:
    """One of many matrices, or of those that are there for all s."""
    return x[kl.minimum(s, x.shape[0] - 1), e, g]


@function
def tile_of_many(out: Any, runs: Any, TILING: Tiling, DOWN: bool) -> Any:
    """The numbers of this workgroup's run and matrix, and the first row and column of its tile."""
    BM, BN = TILING.rows, TILING.columns
    rows, columns = kl.cdiv(out.shape[3], BM), kl.cdiv(out.shape[4], BN)
    tile, matrix = kl.group_id(0) % (rows * columns), kl.group_id(0) // (rows * columns)
    row, column = (tile % rows, tile // rows) if DOWN else (tile // columns, tile % columns)
    s, batch = matrix % runs, matrix // runs
    return s, batch // out.shape[2], batch % out.shape[2], row * BM, column * BN
