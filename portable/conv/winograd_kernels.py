"""The transforms of Winograd's convolution: filters, images, results.

Of a tile each work-item transforms one channel, in registers. What is transformed is stored as so
many matrices as a tile has elements, whose products `portable.linalg.gemm` makes. All arrays are
seen as (N, C, H, W), however they lie; `CHANNELS_FAST` says whether neighbouring work-items take
neighbouring channels or neighbouring tiles.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.conv.geometry import Pair
from portable.conv.points import Transforms
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["transform_filters", "transform_images", "transform_results"]


@function
def weighted(row: Any, line: Any) -> Any:
    """The sum of elements of a line, each times its number in a row of a transform."""
    total = row[0][1] * line[row[0][0]]
    for k, factor in row[1:]:
        total += factor * line[k]
    return total


@function
def transformed(rows: Any, tile: Any, height: int) -> Any:
    """``rows @ tile @ rows.T``, of a private tile with `height` rows and columns."""
    half = kl.private((len(rows), height), tile.dtype)
    for i in kl.static_range(len(rows)):
        for j in kl.static_range(height):
            half[i, j] = weighted(rows[i], tile[0:height, j])
    full = kl.private((len(rows), len(rows)), tile.dtype)
    for i in kl.static_range(len(rows)):
        for j in kl.static_range(len(rows)):
            full[i, j] = weighted(rows[j], half[i, 0:height])
    return full


@kernel
def transform_filters(w: Any, u: Any, *, BY: Transforms, TAPS: int, ACC: Any) -> None:
    """``u[e, g, k, c]`` is element e of the transformed filter ``w[g K + k, c]``."""
    c, k = kl.global_id(0), kl.global_id(1)
    filters = u.shape[2]
    if c < w.shape[1] and k < w.shape[0]:
        tile = kl.private((TAPS, TAPS), ACC)
        for i in kl.static_range(TAPS):
            for j in kl.static_range(TAPS):
                tile[i, j] = ACC(w[k, c, i, j])
        full = transformed(BY.filter, tile, TAPS)
        for i in kl.static_range(BY.inputs):
            for j in kl.static_range(BY.inputs):
                u[i * BY.inputs + j, k // filters, k % filters, c] = full[i, j]


@function
def tile_place(t: Any, tiles: Any) -> Any:
    """Image, row and column of tile `t`, of `tiles` (down, across) in each image."""
    inside = t % (tiles[0] * tiles[1])
    return t // (tiles[0] * tiles[1]), inside // tiles[1], inside % tiles[1]


@kernel
def transform_images(
    x: Any,
    v: Any,
    first: Any,
    tiles: Any,
    *,
    BY: Transforms,
    PADDING: Pair,
    CHANNELS_FAST: bool,
    ACC: Any,
) -> None:
    """``v[e, g, c, p]`` is element e of tile ``first + p`` of channel ``g C + c``, transformed."""
    p, channel = kl.global_id(0), kl.global_id(1)
    if CHANNELS_FAST:
        p, channel = channel, p
    if p < v.shape[3] and channel < x.shape[1]:
        n, row, column = tile_place(first + p, tiles)
        y, z = row * BY.results - PADDING[0], column * BY.results - PADDING[1]
        tile = kl.private((BY.inputs, BY.inputs), ACC)
        # What lies outside is read from the edge and replaced: loads that no condition holds back
        # are all under way at once.
        for i in kl.static_range(BY.inputs):
            above = y + i >= 0 and y + i < x.shape[2]
            line = kl.clip(y + i, 0, x.shape[2] - 1)
            for j in kl.static_range(BY.inputs):
                inside = above and z + j >= 0 and z + j < x.shape[3]
                value = ACC(x[n, channel, line, kl.clip(z + j, 0, x.shape[3] - 1)])
                tile[i, j] = kl.where(inside, value, ACC(0))
        full = transformed(BY.input, tile, BY.inputs)
        for i in kl.static_range(BY.inputs):
            for j in kl.static_range(BY.inputs):
                v[i * BY.inputs + j, channel // v.shape[2], channel % v.shape[2], p] = full[i, j]


@kernel
def transform_results(
    m: Any,
    out: Any,
    bias: Any,
    first: Any,
    tiles: Any,
    *,
    BY: Transforms,
    ACTIVATION: Any,
    CHANNELS_FAST: bool,
) -> None:
    """The results of tiles ``first + p`` from products ``m[e, g, k, p]``, activated."""
    p, channel = kl.global_id(0), kl.global_id(1)
    if CHANNELS_FAST:
        p, channel = channel, p
    if p < m.shape[3] and channel < out.shape[1]:
        n, row, column = tile_place(first + p, tiles)
        tile = kl.private((BY.inputs, BY.inputs), m.dtype)
        for i in kl.static_range(BY.inputs):
            for j in kl.static_range(BY.inputs):
                tile[i, j] = m[i * BY.inputs + j, channel // m.shape[2], channel % m.shape[2], p]
        full = transformed(BY.output, tile, BY.inputs)
        y, z = row * BY.results, column * BY.results
        for i in kl.static_range(BY.results):
            for j in kl.static_range(BY.results):
                if n < out.shape[0] and y + i < out.shape[2] and z + j < out.shape[3]:
                    value = full[i, j]
                    if bias is not None:
                        value += m.dtype(bias[channel])
                    out[n, channel, y + i, z + j] = ACTIVATION(value)
