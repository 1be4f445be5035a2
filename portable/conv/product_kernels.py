"""Products of many matrices of one shape, such as Winograd's method makes of transformed tiles."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["multiply_many"]


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
    UNITS: bool,
    SPLIT: bool,
    DOWN: bool,
    ACC: Any,
) -> None:
    """``out[s, e, g] = a[s, e, g] @ b[s, e, g]``, a workgroup per ``BM x BN`` tile.

    Of `a` or `b` there may be one for all s. Tiles follow each other down a matrix where `DOWN`,
    else across it, then over s, so that what they share stays in the last-level cache. The ring of
    ``STAGES`` tiles is that of `portable.linalg.gemm_kernels.gemm_tiles`; where factors may be
    `SPLIT`, matrix units multiply single precision. Local memory: ``STAGES (BM + BN) BK``
    elements, and padding.
    """
    m, n, k = out.shape[3], out.shape[4], a.shape[4]
    s, e, g, row, column = tile_of_many(out, BM, BN, DOWN)
    left = a[kl.minimum(s, a.shape[0] - 1), e, g]
    right = b[kl.minimum(s, b.shape[0] - 1), e, g]
    AHEAD = STAGES - 1
    tile_a, tile_b = kl.local((STAGES, BM, BK), a.dtype), kl.local((STAGES, BK, BN), b.dtype)
    acc = kl.matrix((BM, BN), ACC, scope="workgroup", units=UNITS, split=SPLIT)
    acc.fill(0)
    for stage in kl.static_range(AHEAD):
        kl.copy_async(tile_a[stage], left[row : row + BM, stage * BK : stage * BK + BK])
        kl.copy_async(tile_b[stage], right[stage * BK : stage * BK + BK, column : column + BN])
        kl.copy_commit()
    for step in range(kl.cdiv(k, BK)):
        if AHEAD > 0:
            kl.copy_wait(AHEAD - 1)
            kl.barrier()
        ahead = step + AHEAD
        slot, start = ahead % STAGES, ahead * BK
        kl.copy_async(tile_a[slot], left[row : row + BM, start : start + BK])
        kl.copy_async(tile_b[slot], right[start : start + BK, column : column + BN])
        kl.copy_commit()
        if AHEAD == 0:
            kl.copy_wait(0)
            kl.barrier()
        now = step % STAGES
        kl.mma(acc, tile_a[now], tile_b[now], valid=(m - row, n - column, k - step * BK))
        if STAGES == 1:
            kl.barrier()
    acc.store(out[s, e, g, row : row + BM, column : column + BN])


@function
def tile_of_many(out: Any, BM: int, BN: int, DOWN: bool) -> Any:
    """The numbers of this workgroup's matrix, and the first row and column of its tile."""
    rows, columns = kl.cdiv(out.shape[3], BM), kl.cdiv(out.shape[4], BN)
    tile, matrix = kl.group_id(0) % (rows * columns), kl.group_id(0) // (rows * columns)
    row, column = (tile % rows, tile // rows) if DOWN else (tile // columns, tile % columns)
    s, batch = matrix % out.shape[0], matrix // out.shape[0]
    return s, batch // out.shape[2], batch % out.shape[2], row * BM, column * BN
