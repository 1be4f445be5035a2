"""Products of a matrix and a vector: read once, by vectors.

What a product costs is the reading of the matrix, so that no operand is packed into tiles.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.kernel import kernel
from portable.linalg.base.sums import lane_sum

_CHAIN = 64
"""Steps of a sum before it goes into another."""


@kernel
def pairs_by_vector(
    a: Any, x: Any, outs: Any, *, ACC: Any, LANES: int, VECTORS: int, DEPTH: int
) -> None:
    """``outs[s] = a x`` of `DEPTH` columns of complex numbers, which are pairs along rows.

    A work-item has the sums of `VECTORS` rows, two vectors of each: of products of parts that stand
    at the same place, the imaginary ones with a minus, and of those that stand across. Past the
    last row that is read again.
    """
    rows = a.shape[0]
    blocks = kl.cdiv(rows, VECTORS)
    first = kl.global_id(0) % blocks * VECTORS
    section = kl.global_id(0) // blocks
    start = section * (2 * DEPTH)
    stop = start + kl.minimum(a.shape[1] - start, 2 * DEPTH)
    read = [kl.minimum(first + v, rows - 1) for v in range(VECTORS)]
    signs = kl.vector(*[kl.cast(1 - 2 * (lane % 2), ACC) for lane in range(LANES)])
    across = tuple([lane + 1 - 2 * (lane % 2) for lane in range(LANES)])
    sums = kl.private(2 * VECTORS, ACC, lanes=LANES, fill=0)
    chain = kl.private(2 * VECTORS, ACC, lanes=LANES)
    whole = start + (stop - start) // LANES * LANES
    for begin in range(start, whole, _CHAIN * LANES):
        for v in kl.static_range(2 * VECTORS):
            chain[v] = kl.splat(kl.cast(0, ACC), LANES)
        for k in range(begin, begin + kl.minimum(whole - begin, _CHAIN * LANES), LANES):
            factors = kl.cast(kl.vload(x, k, lanes=LANES), ACC)
            beside, turned = factors * signs, kl.shuffle2(factors, factors, across)
            for v in kl.static_range(VECTORS):
                loaded = kl.cast(kl.vload(a, read[v], k, lanes=LANES), ACC)
                chain[2 * v] = kl.fma(loaded, beside, chain[2 * v])
                chain[2 * v + 1] = kl.fma(loaded, turned, chain[2 * v + 1])
        for v in kl.static_range(2 * VECTORS):
            sums[v] = sums[v] + chain[v]
    for v in kl.static_range(VECTORS):
        if first + v < rows:
            total = kl.complex(lane_sum(sums[2 * v]), lane_sum(sums[2 * v + 1]))
            for k in range(whole, stop, 2):
                left = kl.complex(kl.cast(a[read[v], k], ACC), kl.cast(a[read[v], k + 1], ACC))
                total += left * kl.complex(kl.cast(x[k], ACC), kl.cast(x[k + 1], ACC))
            outs[section, first + v] = total


@kernel
def rows_by_vector(
    a: kl.Array, x: kl.Array, outs: kl.Array, *, ACC: Any, LANES: int, WIDTH: int, DEPTH: int
) -> None:
    """``outs[s] = a x`` of `DEPTH` columns, whose rows lie together; a workgroup for each row."""
    rows = a.shape[0]
    row, section = kl.group_id(0) % rows, kl.group_id(0) // rows
    start = section * DEPTH
    length = kl.minimum(a.shape[1] - start, DEPTH)
    item, step = kl.local_id(0), WIDTH * LANES
    whole = start + length // LANES * LANES
    total = kl.splat(kl.cast(0, ACC), LANES)
    for begin in range(start + item * LANES, whole, _CHAIN * step):
        chain = kl.splat(kl.cast(0, ACC), LANES)
        for k in kl.range(begin, begin + kl.minimum(whole - begin, _CHAIN * step), step, unroll=4):
            factors = kl.cast(kl.vload(x, k, lanes=LANES), ACC)
            chain = kl.fma(kl.cast(kl.vload(a, row, k, lanes=LANES), ACC), factors, chain)
        total = total + chain
    total_here = lane_sum(total)
    for k in range(whole + item, start + length, WIDTH):
        total_here += kl.cast(a[row, k], ACC) * kl.cast(x[k], ACC)
    total_here = kl.workgroup_reduce(kl.add, total_here)
    if item == 0:
        outs[section, row] = total_here
