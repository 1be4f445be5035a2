"""Kernels that do nothing but what bounds all others: moving, and multiplying and adding."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.kernel import kernel

__all__ = ["copy", "multiply_add", "multiply_tiles"]


@kernel
def copy(x: Any, y: Any, *, LANES: int) -> None:
    """A vector per work-item; the extent is a multiple of `LANES`.

    It passes the caches by, as the fastest copies of processors do.
    """
    i = kl.global_id(0) * LANES
    if i < x.shape[0]:
        kl.vstore(y, i, kl.vload(x, i, lanes=LANES), streaming=True)


@kernel
def multiply_add(x: Any, steps: Any, *, CHAINS: int, LANES: int) -> None:
    """``y = y / 2 + 1`` in `CHAINS` vectors that do not wait for each other.

    The factors come from `x`, which holds 0.5 and 1, so that no compiler knows them. From whatever
    it begins with, each number ends as 2, and `x` gets the means over chains.
    """
    kind = kl.accumulator(x.dtype)
    half, one = kind(x[0]), kind(x[1])
    if LANES > 1:
        half, one = kl.splat(half, LANES), kl.splat(one, LANES)
    y = kl.private((CHAINS,), kind, lanes=LANES)
    for chain in kl.static_range(CHAINS):
        y[chain] = one * (chain + kl.local_id(0) % 2)
    for _ in kl.range(steps):
        for chain in kl.static_range(CHAINS):
            y[chain] = y[chain] * half + one
    total = y[0]
    for chain in kl.static_range(1, CHAINS):
        total = total + y[chain]
    if LANES > 1:
        kl.vstore(x, 2 + kl.global_id(0) * LANES, total / CHAINS)
    else:
        x[2 + kl.global_id(0)] = total / CHAINS


@kernel
def multiply_tiles(
    a: Any,
    b: Any,
    out: Any,
    steps: Any,
    scale: Any,
    *,
    BM: int,
    BN: int,
    BK: int,
    ACC: Any,
) -> None:
    """``out = steps (a @ b) scale``, both tiles resting in local memory; one workgroup writes."""
    tile_a, tile_b = kl.local((BM, BK), a.dtype), kl.local((BK, BN), b.dtype)
    kl.copy(tile_a, a[0:BM, 0:BK])
    kl.copy(tile_b, b[0:BK, 0:BN])
    kl.barrier()
    total = kl.matrix((BM, BN), ACC, scope="workgroup")
    total.fill(0)
    for _ in kl.range(steps):
        kl.mma(total, tile_a, tile_b)
    for i, j, x in kl.elements(total):
        if kl.group_id(0) == 0:
            out[i, j] = x * scale
