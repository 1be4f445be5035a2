"""Convolution as a product of matrices one of which is gathered from images as it is needed.

A tile kernel like `portable.linalg.products.kernels.gemm_tiles`, but the second matrix is what
windows see of images, zeros outside. So one kernel makes results and gradients by filters, of any
stride, padding, dilation and number of groups, and no matrix of patches lies in memory.

Where an element of that matrix lies in the images is a sum of two parts, one by its row and one by
its column (`Spot`). A tile's columns stay the same for all of its steps, so that the divisions
which a place takes are made once for them, and once in a step for each of its rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from portable import lang as kl
from portable.conv.geometry import Window
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.tiling import Tiling
from portable.linalg.products.schedules import tile_position


class Spot(NamedTuple):
    """A part of a place in images; two of them are added."""

    channel: Any
    y: Any
    z: Any


@dataclass(frozen=True)
class Results:
    """``out[n, k, y, z]``: filters ``left[0, k, t]`` times what tap t sees.

    A tile has filters as rows and places of image `n` as columns; `extent` is the result's width.
    """

    window: Window
    extent: Any

    def by_row(self, t: kl.Scalar) -> Any:
        """Of tap t, counted through the channels."""
        (rows, columns), (top, left) = self.window.taps, self.window.padding
        y = t // columns % rows * self.window.dilation[0] - top
        return Spot(t // (rows * columns), y, t % columns * self.window.dilation[1] - left)

    def by_column(self, j: kl.Scalar) -> Any:
        """Of the j-th place of the result."""
        down, across = self.window.stride
        return Spot(0, j // self.extent * down, j % self.extent * across)

    def seen(self, x: kl.Array, n: kl.Scalar, first: kl.Scalar, row: Spot, column: Spot) -> Any:
        """What the tap sees from the place."""
        return pixel(x, n, first + row.channel, row.y + column.y, row.z + column.z, True)


@dataclass(frozen=True)
class FilterGradient(Results):
    """``out[s, k, c, r, q]``, the gradient by the filters: gradients times what the filters saw.

    A tile has filters as rows, ``left[n, k, t]``, t counting places of results, and taps as
    columns; `extent` is the results' width.
    """

    def by_row(self, t: kl.Scalar) -> Any:
        """Of the t-th place of results."""
        return Results.by_column(self, t)

    def by_column(self, j: kl.Scalar) -> Any:
        """Of tap j."""
        return Results.by_row(self, j)

    def seen(self, x: kl.Array, n: kl.Scalar, first: kl.Scalar, row: Spot, column: Spot) -> Any:
        """What the tap saw from the place."""
        channel = first + column.channel
        return pixel(x, n, channel, row.y + column.y, row.z + column.z, channel < x.shape[1])


@function
def pixel(x: kl.Array, n: kl.Scalar, c: kl.Scalar, y: kl.Scalar, z: kl.Scalar, valid: Any) -> Any:
    """An element of images where `valid`; zero elsewhere and outside."""
    value = kl.accumulator(x.dtype)(0)
    if valid and y >= 0 and y < x.shape[2] and z >= 0 and z < x.shape[3]:
        value = value.dtype(x[n, c, y, z])
    return value


class Gathering(NamedTuple):
    """What is multiplied, a constant of kernels.

    Attributes
    ----------
    product : type
        `Results` or `FilterGradient`.
    window : Window
    groups : int
    flat : bool
        Whether there is one group, and the last dimension of the result holds all places.
    tiling : Tiling
    activation : Function
        What becomes of results.
    """

    product: Any
    window: Window
    groups: int
    flat: bool
    tiling: Tiling
    activation: Any


@kernel
def gathered_product(
    left: kl.Array,
    x: kl.Array,
    out: kl.Array,
    bias: kl.Array | None,
    residual: kl.Array | None,
    channels: kl.Scalar,
    extent: kl.Scalar,
    *,
    GATHERING: Gathering,
) -> None:
    """A workgroup per tile of a matrix for each part and group: ``out[s, channels]``.

    Part s sums over images ``s P`` to ``(s + 1) P``, P the images over the parts rounded up; `left`
    has a matrix for all images or one for each. `channels` is how many of `x` a group sees. Two
    slots in local memory: while one is multiplied the other is filled. Local memory: ``2 (rows +
    columns) depth`` elements, the padding that the device's layout wants, and a `Spot` for each row
    and column.
    """
    TILING, ACC = GATHERING.tiling, kl.accumulator(x.dtype)
    BM, BN, BK = TILING[0:3]
    product = GATHERING.product(GATHERING.window, extent)
    m, n, depth = out.shape[1] // GATHERING.groups, out.shape[2] * out.shape[3], left.shape[2]
    rows, columns = kl.cdiv(m, BM), kl.cdiv(n, BN)
    index, batch = kl.group_id(0) % (rows * columns), kl.group_id(0) // (rows * columns)
    part, group = batch // GATHERING.groups, batch % GATHERING.groups
    row, column = tile_position(index, rows, columns, TILING.group)
    row, column = row * BM, column * BN
    images = kl.cdiv(x.shape[0], out.shape[0])
    first = part * images
    deep = kl.cdiv(depth, BK)
    steps = (kl.minimum(first + images, x.shape[0]) - first) * deep

    tile_a, tile_b = kl.local((2, BM, BK), left.dtype), kl.local((2, BK, BN), x.dtype)
    spot = Spot(kl.i32, kl.i32, kl.i32)
    by_row, by_column = kl.local((2, BK), spot), kl.local(BN, spot)
    acc = kl.matrix((BM, BN), ACC, scope="workgroup", units=TILING.units, split=TILING.split)
    acc.fill(0)
    first_spots(product, by_row, by_column, column, deep)
    kl.barrier()
    for step in range(-1, steps):
        ahead = step + 1
        if ahead < steps:
            at, start, image = ahead % 2, ahead % deep * BK, first + ahead // deep
            a, top = left[image % left.shape[0]], group * m + row
            kl.copy_async(tile_a[at], a[top : top + BM, start : start + BK])
            kl.copy_commit()
            seen = Seen(x, image, group * channels, by_row[at], by_column)
            gather(product, tile_b[at], seen, n - column, depth - start)
        if step >= 0:
            now, start = step % 2, step % deep * BK
            kl.mma(acc, tile_a[now], tile_b[now], valid=(m - row, n - column, depth - start))
        kl.copy_wait(0)
        kl.barrier()
        for k in range(kl.local_linear_id(), BK, kl.local_size(0)):
            by_row[ahead % 2, k] = product.by_row((ahead + 2) % deep * BK + k)
    if GATHERING.flat:
        acc.map(finished, (part, row, column), out, bias, residual, GATHERING.activation)
        if residual is not None:  # which may be the result
            kl.barrier()
        acc.store(out[part, row : row + BM, 0, column : column + BN])
    else:
        for i, j, value in kl.elements(acc):
            if row + i < m and column + j < n:
                channel, position = group * m + row + i, column + j
                corner = part, channel - i, position - j
                result = finished(value, i, j, corner, out, bias, residual, GATHERING.activation)
                out[part, channel, position // out.shape[3], position % out.shape[3]] = result


@function
def first_spots(
    product: Any, by_row: Any, by_column: Any, column: kl.Scalar, deep: kl.Scalar
) -> None:
    """Works out where the columns of a tile lie, and the rows of the first two steps."""
    item, size = kl.local_linear_id(), kl.local_size(0)
    for j in range(item, by_column.shape[0], size):
        by_column[j] = product.by_column(column + j)
    for k in range(item, by_row.shape[1], size):
        by_row[0, k] = product.by_row(k)
        by_row[1, k] = product.by_row(1 % deep * by_row.shape[1] + k)


@function
def finished(
    value: kl.Scalar,
    i: kl.Scalar,
    j: kl.Scalar,
    at: tuple[kl.Scalar, ...],
    out: kl.Array,
    bias: kl.Array | None,
    residual: kl.Array | None,
    activation: Any,
) -> Any:
    """A result in a tile, which may reach beyond the channels and places, at an image and these."""
    image, row, column = at
    if bias is not None and row + i < bias.shape[0]:
        value += value.dtype(bias[row + i])
    if residual is not None:
        position = column + j
        y, z = position // out.shape[3], position % out.shape[3]
        if row + i < out.shape[1] and y < out.shape[2]:
            value += value.dtype(residual[image, row + i, y, z])
    return activation(value)


class Seen(NamedTuple):
    """Images and the spots of a tile of what is seen of one of them, from a channel on."""

    x: Any
    image: Any
    first: Any
    by_row: Any
    by_column: Any


@function
def gather(product: Any, tile: kl.Array, seen: Seen, n: kl.Scalar, depth: kl.Scalar) -> None:
    """The workgroup fills a tile of which `depth` rows and `n` columns are needed, zeros beyond.

    A work-item keeps to a column where there are enough of them, and reads its spot once.
    """
    item, size = kl.local_linear_id(), kl.local_size(0)
    across = tile.shape[1]
    together = kl.cdiv(size - across + 1, across) if size >= across else 1
    if size < across or item < together * across:
        for j in range(item % across if size >= across else item, across, size):
            column = seen.by_column[j]
            for k in range(item // across if size >= across else 0, tile.shape[0], together):
                tile[k, j] = 0
                if j < n and k < depth:
                    row = seen.by_row[k]
                    tile[k, j] = product.seen(seen.x, seen.image, seen.first, row, column)
