"""The transforms of Winograd's convolution: filters, images, results, and for the gradients.

Of a tile each work-item transforms one channel, in registers. What is transformed is stored as so
many matrices as a tile has elements, whose products `portable.linalg.gemm` makes. All arrays are
seen as (N, C, H, W), however they lie.
"""

from __future__ import annotations

from itertools import product
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.conv.direct.parted import high_part
from portable.conv.geometry import Pair
from portable.conv.winograd.points import Transforms
from portable.lang.function import function
from portable.lang.kernel import kernel


@function
def weighted(row: Any, line: Any) -> Any:
    """The sum of elements of a line, each times its number in a row of a transform."""
    total = row[0][1] * line[row[0][0]]
    for k, factor in row[1:]:
        total += factor * line[k]
    return total


@function
def transformed(rows: Any, tile: kl.Array, height: int) -> Any:
    """``rows @ tile @ rows.T``, of a private tile with `height` rows and columns."""
    half = kl.private((len(rows), height), tile.dtype)
    for i, j in product(kl.static_range(len(rows)), kl.static_range(height)):
        half[i, j] = weighted(rows[i], tile[0:height, j])
    full = kl.private((len(rows), len(rows)), tile.dtype)
    for i, j in product(kl.static_range(len(rows)), kl.static_range(len(rows))):
        full[i, j] = weighted(rows[j], half[i, 0:height])
    return full


@kernel
def transform_filters(w: kl.Array, u: kl.Array, *, BY: Transforms, TURNED: bool) -> None:
    """``u[e, g, k, c]`` is element e of the transformed filter ``w[g K + k, c]``.

    Where they are `TURNED` it is that of ``w[g C + c, k]``, its taps in the other order.
    """
    c, k = kl.global_id(0), kl.global_id(1)
    filters, depth = u.shape[2], u.shape[3]
    if c < depth and k < u.shape[1] * filters:
        full = transformed_filter(w, k, c, (filters, depth), BY, TURNED, u.dtype)
        for e in kl.static_range(BY.inputs * BY.inputs):
            u[e, k // filters, k % filters, c] = full[e // BY.inputs, e % BY.inputs]


@function
def transformed_filter(
    w: kl.Array,
    k: kl.Scalar,
    c: kl.Scalar,
    group: tuple[kl.Scalar, ...],
    BY: Transforms,
    TURNED: bool,
    ACC: Any,
) -> Any:
    """Channel c of filter k of all groups, each of so many filters and channels, transformed."""
    (filters, depth), TAPS = group, BY.taps
    tile = kl.private((TAPS, TAPS), ACC)
    for i, j in product(kl.static_range(TAPS), kl.static_range(TAPS)):
        if TURNED:
            plane = k // filters * depth + c
            tile[i, j] = ACC(w[plane, k % filters, TAPS - 1 - i, TAPS - 1 - j])
        else:
            tile[i, j] = ACC(w[k, c, i, j])
    return transformed(BY.filter, tile, TAPS)


class Tiles(NamedTuple):
    """Tiles of images from the `first` on, `down` and `across` each image, `total` in all."""

    first: Any
    total: Any
    down: Any
    across: Any

    def place(self, t: kl.Scalar) -> Any:
        """Image, row and column of tile ``first + t``."""
        at, each = self.first + t, self.down * self.across
        image = at // each
        inside = at - image * each
        row = inside // self.across
        return image, row, inside - row * self.across


_CHANNELS: Final = 8
"""Of a workgroup that makes parts: a sector of memory each, of tiles that lie side by side."""


class TilePlan(NamedTuple):
    """How workgroups transform tiles, a constant of kernels.

    Neighbouring workgroups take what lies together in memory: the channels of a block of tiles, or
    of a tile.

    Attributes
    ----------
    by : Transforms
    tiles : int
        Of a block.
    channels_fast : bool
        Whether neighbouring work-items take neighbouring channels, or neighbouring tiles.
    part : int
        Channels whose high parts are kept before their low ones (`portable.conv.direct.parted`); 0
        where numbers are whole.
    """

    by: Transforms
    tiles: int
    channels_fast: bool
    part: int = 0

    def own(self, channels: kl.Scalar) -> Any:
        """This work-item's tile, its channel, and whether it has one."""
        item, group = kl.local_id(0), kl.group_id(0)
        if self.part:
            each, chunks = kl.local_size(0) // _CHANNELS, kl.cdiv(channels, _CHANNELS)
            tile = group // chunks * each + item // _CHANNELS
            return tile, group % chunks * _CHANNELS + item % _CHANNELS, True
        if self.channels_fast:
            chunks = kl.cdiv(channels, kl.local_size(0))
            channel = group % chunks * kl.local_size(0) + item
            return group // chunks, channel, channel < channels
        return group // channels * self.tiles + item, group % channels, item < self.tiles

    def keep(self, full: kl.Array, out: kl.Array, p: kl.Scalar, channel: kl.Scalar) -> None:
        """Writes the elements of tile p of a channel, as `transform_images` has them."""
        S, T, PART = self.by.inputs, self.tiles, self.part
        if PART:
            at = channel // PART * PART + channel
            for e in kl.static_range(S * S):
                value = full[e // S, e % S]
                high = high_part(value)
                out[p // T, e, 0, at, p % T] = high
                out[p // T, e, 0, at + PART, p % T] = value - high
        else:
            g, c = channel // out.shape[3], channel % out.shape[3]
            for e in kl.static_range(S * S):
                out[p // T, e, g, c, p % T] = full[e // S, e % S]


@function
def line_of_tile(start: kl.Scalar, i: int, extent: kl.Scalar, PADDED: bool) -> Any:
    """Where line `i` of a tile lies in an image, and whether it does.

    Beyond its end, what is there counts only for results that nobody keeps, unless it is `PADDED`.
    """
    if not PADDED:
        return kl.minimum(start + i, extent - 1), True
    return kl.clip(start + i, 0, extent - 1), start + i >= 0 and start + i < extent


@kernel
def transform_images(
    x: kl.Array, v: kl.Array, tiles: Tiles, *, PLAN: TilePlan, PADDING: Pair
) -> None:
    """``v[b, e, g, c, t]`` is element e of tile ``first + b T + t`` of channel ``g C + c``.

    Tiles beyond the last one are made too, of what lies anywhere, and so are channels that fill up
    parts.
    """
    BY, ACC = PLAN.by, v.dtype
    p, channel, exists = PLAN.own(v.shape[3] // 2 if PLAN.part else x.shape[1])
    seen = kl.minimum(channel, x.shape[1] - 1) if PLAN.part else channel
    if exists:
        n, row, column = tiles.place(p)
        n = kl.minimum(n, x.shape[0] - 1)
        y, z = row * BY.results - PADDING[0], column * BY.results - PADDING[1]
        tile = kl.private((BY.inputs, BY.inputs), ACC)
        # What lies outside is read from the edge and replaced: loads that no condition holds back
        # are all under way at once.
        for i in kl.static_range(BY.inputs):
            line, above = line_of_tile(y, i, x.shape[2], PADDING[0] > 0)
            for j in kl.static_range(BY.inputs):
                at, beside = line_of_tile(z, j, x.shape[3], PADDING[1] > 0)
                value = ACC(x[n, seen, line, at])
                if PADDING != (0, 0):
                    value = kl.where(above and beside, value, ACC(0))
                tile[i, j] = value
        PLAN.keep(transformed(BY.input, tile, BY.inputs), v, p, channel)


@kernel
def transform_results(
    m: kl.Array,
    out: kl.Array,
    bias: kl.Array | None,
    residual: Any,
    tiles: Tiles,
    *,
    PLAN: TilePlan,
    ACTIVATION: Any,
    STAGED: bool,
) -> None:
    """The results of tiles ``first + b T + t`` from products ``m[b, e, g, k, t]``, activated.

    Where they are `STAGED`, rows of several tiles are put together in local memory, ``m**2 T``
    elements, so that neighbouring work-items write neighbours.
    """
    R, S, T = PLAN.by.results, PLAN.by.inputs, PLAN.tiles
    p, channel, exists = PLAN.own(out.shape[1])
    full = kl.private((R, R), m.dtype)
    n, row, column = tiles.place(p)
    if exists:
        tile = kl.private((S, S), m.dtype)
        g, k = channel // m.shape[3], channel % m.shape[3]
        for e in kl.static_range(S * S):
            tile[e // S, e % S] = m[p // T, e, g, k, p % T]
        made = transformed(PLAN.by.output, tile, S)
        added = m.dtype(0 if bias is None else bias[channel])
        for i, j in product(kl.static_range(R), kl.static_range(R)):
            value = made[i, j] + added
            if residual is not None:
                y, z = row * R + i, column * R + j
                if n < out.shape[0] and y < out.shape[2] and z < out.shape[3]:
                    value += m.dtype(residual[n, channel, y, z])
            full[i, j] = ACTIVATION(value)
    if STAGED:
        rows, corners = kl.local((R, T * R), m.dtype), kl.local((T, 3), kl.i32)
        item = kl.local_id(0)
        if exists:
            corners[item, 0], corners[item, 1], corners[item, 2] = n, row * R, column * R
            for i, j in product(kl.static_range(R), kl.static_range(R)):
                rows[i, item * R + j] = full[i, j]
        kl.barrier()
        for part in kl.static_range(R):
            at = part * kl.local_size(0) + item
            if at < T * R:
                n, y, z = corners[at // R, 0], corners[at // R, 1], corners[at // R, 2] + at % R
                for i in kl.static_range(R):
                    if n < out.shape[0] and y + i < out.shape[2] and z < out.shape[3]:
                        out[n, channel, y + i, z] = rows[i, at]
    elif exists:
        y, z = row * R, column * R
        for i, j in product(kl.static_range(R), kl.static_range(R)):
            if n < out.shape[0] and y + i < out.shape[2] and z + j < out.shape[3]:
                out[n, channel, y + i, z + j] = full[i, j]


@kernel
def transform_gradient(dy: kl.Array, m: kl.Array, tiles: Tiles, *, PLAN: TilePlan) -> None:
    """``m[b, e, g, k, t]`` from the gradient by results of tile ``first + b T + t``.

    The transpose of `transform_results`; zero beyond the last tile.
    """
    p, channel, exists = PLAN.own(dy.shape[1])
    if exists:
        R, ACC = PLAN.by.results, m.dtype
        n, row, column = tiles.place(p)
        n = kl.minimum(n, dy.shape[0] - 1)
        tile = kl.private((R, R), ACC)
        for i in kl.static_range(R):
            line = kl.minimum(row * R + i, dy.shape[2] - 1)
            above = row * R + i < dy.shape[2] and tiles.first + p < tiles.total
            for j in kl.static_range(R):
                value = ACC(dy[n, channel, line, kl.minimum(column * R + j, dy.shape[3] - 1)])
                inside = above and column * R + j < dy.shape[3]
                tile[i, j] = kl.where(inside, value, ACC(0))
        PLAN.keep(transformed(PLAN.by.output_turned, tile, R), m, p, channel)


@kernel
def transform_sums(u: kl.Array, dw: kl.Array, *, BY: Transforms) -> None:
    """The gradient by filters ``dw[g K + k, c]`` from sums ``u[s, e, g, k, c]`` over all s.

    The transpose of `transform_filters`.
    """
    c, k = kl.global_id(0), kl.global_id(1)
    if c < dw.shape[1] and k < dw.shape[0]:
        S, g, filter_number = BY.inputs, k // u.shape[3], k % u.shape[3]
        tile = kl.private((S, S), u.dtype, fill=0)
        for s in range(u.shape[0]):
            for e in kl.static_range(S * S):
                tile[e // S, e % S] += u[s, e, g, filter_number, c]
        full = transformed(BY.filter_turned, tile, S)
        for i, j in product(kl.static_range(BY.taps), kl.static_range(BY.taps)):
            dw[k, c, i, j] = full[i, j]
