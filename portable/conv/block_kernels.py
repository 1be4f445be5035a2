"""Winograd's convolution where a work-item has a processor's core to itself, all stages in one.

What is transformed stays in the core's caches: a block of tiles of all channels is transformed,
multiplied with the filters, some of them at a time, and their results are transformed back. Vectors
hold neighbouring tiles. One after the other, as `winograd_kernels` has them, the stages took 1.2 to
1.4 of the time on a core (64 channels of 28 x 28 and 32 of 56 x 56 pixels, single precision).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.conv.geometry import Pair
from portable.conv.points import Transforms
from portable.conv.winograd_kernels import line_of_tile, weighted
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.tiling import Tiling

__all__ = ["LANES", "BlockPlan", "convolve_blocks"]

LANES: Final = 16
"""Tiles of a vector; those of a block are a multiple."""

_EVEN: Final = tuple(range(0, 2 * LANES, 2))
_ODD: Final = tuple(range(1, 2 * LANES, 2))


class BlockPlan(NamedTuple):
    """How a work-item convolves a block, a constant of kernels.

    Attributes
    ----------
    by : Transforms
    padding : (int, int)
        Rows and columns of zeros on each side of images.
    tiling : Tiling
        Of the products; its columns are the tiles of a block.
    """

    by: Transforms
    padding: Pair
    tiling: Tiling


@kernel
def convolve_blocks(
    x: Any,
    u: Any,
    v: Any,
    out: Any,
    bias: Any,
    tiles: Any,
    parts: Any,
    *,
    PLAN: BlockPlan,
    ACTIVATION: Any,
    ACC: Any,
) -> None:
    """The results of tiles ``first + b T`` to ``first + (b + 1) T``, some work-items per block b.

    Each of the `parts` work-items of a block and group makes the results of some of the filters.
    Images, results, transformed filters `u` and the tiles' places are as of `winograd_kernels`;
    ``v[i]`` is room for work-item i to keep transformed tiles (elements, channels, T). Local
    memory: ``(rows + columns) depth`` elements of the tiling and padding.
    """
    BY, T, BM = PLAN.by, PLAN.tiling.columns, PLAN.tiling.rows
    own = kl.group_id(0)
    part, rest = own % parts, own // parts
    g, block = rest % u.shape[2], rest // u.shape[2]
    for t in range(0, T, LANES):
        transform_vector(x, v[own], tiles, block * T, t, g * u.shape[4], PLAN)
    filters = u.shape[3]
    each = kl.cdiv(kl.cdiv(filters, BM), parts) * BM
    sums = kl.private((BY.inputs * BY.inputs, BM, T), ACC)
    for row in range(part * each, kl.minimum((part + 1) * each, filters), BM):
        multiply_elements(sums, u, v[own], g, row, PLAN.tiling)
        for k in range(kl.minimum(BM, filters - row)):
            channel = g * filters + row + k
            added = ACC(0)
            if bias is not None:
                added = ACC(bias[channel])
            finish_tiles(sums, k, out, channel, added, tiles, block * T, BY, ACTIVATION)


@function
def transform_vector(
    x: Any, v: Any, tiles: Any, start: Any, t: Any, first: Any, PLAN: BlockPlan
) -> None:
    """``v[e, c, t + l]`` for all channels c, from the group's `first` on, and all lanes l."""
    BY, PADDING, ACC, S = PLAN.by, PLAN.padding, v.dtype, PLAN.by.inputs
    WIDTH = 4 if S <= 4 else 8
    corners = kl.private((LANES, 3), kl.i32)
    for lane in range(LANES):
        n, row, column = tiles.place(start + t + lane)
        corners[lane, 0] = kl.minimum(n, x.shape[0] - 1)
        corners[lane, 1] = row * BY.results - PADDING[0]
        corners[lane, 2] = column * BY.results - PADDING[1]
    lines = kl.private((S, LANES * WIDTH), ACC)
    for i in range(S):
        for q in kl.static_range(WIDTH):
            kl.vstore(lines, i, q * LANES, kl.splat(ACC(0), LANES))
    for c in range(v.shape[1]):
        for lane in range(LANES):
            n, y, z = corners[lane, 0], corners[lane, 1], corners[lane, 2]
            fits = y >= 0 and y + S <= x.shape[2] and z >= 0 and z + WIDTH <= x.shape[3]
            if fits:
                for i in range(S):
                    line = kl.vload(x, n, first + c, y + i, z, lanes=WIDTH)
                    kl.vstore(lines, i, lane * WIDTH, line)
            else:
                for i in range(S):
                    at, above = line_of_tile(y, i, x.shape[2], PADDING[0] > 0)
                    for j in range(S):
                        beside, inside = line_of_tile(z, j, x.shape[3], PADDING[1] > 0)
                        value = ACC(x[n, first + c, at, beside])
                        if PADDING != (0, 0):
                            value = kl.where(above and inside, value, ACC(0))
                        lines[i, lane * WIDTH + j] = value
        half = kl.private((S, S), ACC, lanes=LANES)
        for i in range(S):
            columns = turned(
                tuple(kl.vload(lines, i, q * LANES, lanes=LANES) for q in range(WIDTH))
            )
            for j in kl.static_range(S):
                half[i, j] = weighted(BY.input[j], columns)
        for j in range(S):
            for i in kl.static_range(S):
                kl.vstore(v, i * S + j, c, t, weighted(BY.input[i], half[0:S, j]))


@function
def turned(vectors: Any) -> Any:
    """Lines of tiles, one after the other in vectors, as vectors of one element of all tiles."""
    found = vectors
    for _ in kl.static_range(2 if len(vectors) == 4 else 3):
        pairs = tuple((found[q], found[q + 1]) for q in range(0, len(found), 2))
        even = tuple(kl.shuffle2(a, b, _EVEN) for a, b in pairs)
        odd = tuple(kl.shuffle2(a, b, _ODD) for a, b in pairs)
        found = (*even, *odd)
    return found


@function
def multiply_elements(sums: Any, u: Any, v: Any, g: Any, row: Any, TILING: Tiling) -> None:
    """``sums[e] = u[0, e, g, row :] @ v[e]`` for all elements of a tile."""
    BM, T, BK = TILING.rows, TILING.columns, TILING.depth
    filters, depth = u.shape[3], u.shape[4]
    left, right = kl.local((BM, BK), u.dtype), kl.local((BK, T), v.dtype)
    acc = kl.matrix((BM, T), sums.dtype, scope="workgroup")
    for e in range(sums.shape[0]):
        acc.fill(0)
        for start in range(0, depth, BK):
            kl.copy_async(left, u[0, e, g, row : row + BM, start : start + BK])
            kl.copy_async(right, v[e, start : start + BK, 0:T])
            kl.copy_commit()
            kl.copy_wait(0)
            kl.mma(acc, left, right, valid=(filters - row, T, depth - start))
        acc.store(sums[e, 0:BM, 0:T])


@function
def finish_tiles(
    sums: Any,
    k: Any,
    out: Any,
    channel: Any,
    added: Any,
    tiles: Any,
    start: Any,
    BY: Transforms,
    ACTIVATION: Any,
) -> None:
    """Writes a channel's results of a block of tiles from the k-th of the sums."""
    R, T = BY.results, sums.shape[2]
    lines = kl.private((R, T * R), sums.dtype)
    for t in range(0, T, LANES):
        results_of_vector(lines, sums, k, t, added, BY)
    t = 0
    while t < T:
        n, row, column = tiles.place(start + t)
        count = kl.minimum(T - t, tiles.across - column)
        if n < out.shape[0]:
            y, z = row * R, column * R
            width = kl.minimum(count * R, out.shape[3] - z)
            for i in range(kl.minimum(R, out.shape[2] - y)):
                for j in range(width):
                    out[n, channel, y + i, z + j] = ACTIVATION(lines[i, t * R + j])
        t += count


@function
def results_of_vector(lines: Any, sums: Any, k: Any, t: Any, added: Any, BY: Transforms) -> None:
    """Lines of the results of the tiles from t on, each tile's next to those of the one before."""
    R, S = BY.results, BY.inputs
    half = kl.private((R, S), sums.dtype, lanes=LANES)
    for j in range(S):
        column = tuple(kl.vload(sums, i * S + j, k, t, lanes=LANES) for i in range(S))
        for i in kl.static_range(R):
            half[i, j] = weighted(BY.output[i], column)
    for i in range(R):
        line = tuple(weighted(BY.output[j], half[i, 0:S]) + added for j in range(R))
        for q in kl.static_range(R):
            kl.vstore(lines, i, t * R + q * LANES, merged(line, q))


@function
def merged(vectors: Any, q: int) -> Any:
    """Vector `q` of all lanes: the first lane of each vector, then the second of each, ..."""
    count = len(vectors)
    found = vectors[0]
    for j in kl.static_range(count):
        found = kl.shuffle2(
            found,
            vectors[j],
            tuple(
                LANES + (q * LANES + lane) // count if (q * LANES + lane) % count == j else lane
                for lane in range(LANES)
            ),
        )
    return found
