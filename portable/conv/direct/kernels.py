"""Convolution as a product of matrices one of which is gathered from images as it is needed.

A reader of the mainloop of products (`portable.linalg.products.mainloop`), whose second matrix is
what windows see of images, zeros outside. So one kernel makes results and gradients by filters, of
any stride, padding, dilation and number of groups, and no matrix of patches lies in memory.

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
from portable.linalg.products.mainloop import multiply, room
from portable.linalg.products.schedules import tile_position


class Spot(NamedTuple):
    """A part of a place in images; two of them are added."""

    channel: Any
    y: Any
    z: Any


@function
def spot_of_tap(window: Window, t: kl.Scalar) -> Any:
    """What tap t, counted through the channels, sees from a place."""
    down, across = window.taps
    y, z = t // across % down * window.dilation[0], t % across * window.dilation[1]
    return Spot(t // (down * across), y - window.padding[0], z - window.padding[1])


@dataclass(frozen=True)
class Results:
    """``out[n, k, y, z]``: filters ``left[0, k, t]`` times what tap t sees.

    A tile has filters as rows and places of image `n` as columns; `extent` is the result's width.
    """

    window: Window
    extent: Any

    def by_row(self, t: kl.Scalar) -> Any:
        """Of tap t."""
        return spot_of_tap(self.window, t)

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


class GatheringReader(NamedTuple):
    """What a tile of a result is made of: matrices, and what is seen of images.

    Attributes
    ----------
    left, x : array
        The matrices, and the images.
    product : Results or FilterGradient
        What is seen.
    spots : (array, array)
        Of the rows of two steps in turn, and of the tile's columns.
    origin : (int, int, int)
        The first row of the matrices, the first image, and the first channel.
    ends : (int, int, int)
        Rows and columns of the tile that count, and the extent of each image's sums.
    last : int
        The image after the last one: steps beyond are asked for ahead, and are zeros.
    """

    left: Any
    x: Any
    product: Any
    spots: Any
    origin: Any
    ends: Any
    last: Any

    def begin(self, column: kl.Scalar) -> None:
        """Works out where the columns of the tile lie, and the rows of the first step."""
        _, by_column = self.spots
        for j in range(kl.local_linear_id(), by_column.shape[0], kl.local_size(0)):
            by_column[j] = self.product.by_column(column + j)
        self.begin_rows(0)

    def begin_rows(self, step: kl.Scalar) -> None:
        """Works out where the rows of a step lie; nobody reads those of two steps before now."""
        by_row, _ = self.spots
        depth = by_row.shape[1]
        start = step % kl.cdiv(self.ends[2], depth) * depth
        for k in range(kl.local_linear_id(), depth, kl.local_size(0)):
            by_row[step % 2, k] = self.product.by_row(start + k)

    def start(self, tile_a: kl.Array, tile_b: kl.Array, step: kl.Scalar) -> None:
        """Starts to copy the tile of a step, gathers the other, and begins the next one's rows."""
        (BM, BK), (row, first, channel), (_, n, depth) = tile_a.shape, self.origin, self.ends
        deep = kl.cdiv(depth, BK)
        begin, image = step % deep * BK, first + step // deep
        matrix = self.left[image % self.left.shape[0]]
        kl.copy_async(tile_a, matrix[row : row + BM, begin : begin + BK])
        by_row, by_column = self.spots
        seen = Seen(self.x, image, channel, by_row[step % 2], by_column)
        gather(self.product, tile_b, seen, n, kl.where(image < self.last, depth - begin, 0))
        self.begin_rows(step + 1)

    def valid(self, step: kl.Scalar) -> Any:
        """Rows, columns and products of a step that count."""
        (m, n, depth), (by_row, _) = self.ends, self.spots
        BK = by_row.shape[1]
        return m, n, depth - step % kl.cdiv(depth, BK) * BK


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
    has a matrix for all images or one for each. `channels` is how many of `x` a group sees. The
    tiling has two stages. Local memory: ``2 (rows + columns) depth`` elements, the padding that the
    device's layout wants, and a `Spot` for each row and column.
    """
    TILING, ACC = GATHERING.tiling, kl.accumulator(x.dtype)
    BM, BN, BK = TILING[0:3]
    m, n, depth = out.shape[1] // GATHERING.groups, out.shape[2] * out.shape[3], left.shape[2]
    rows, columns = kl.cdiv(m, BM), kl.cdiv(n, BN)
    index, batch = kl.group_id(0) % (rows * columns), kl.group_id(0) // (rows * columns)
    part, group = batch // GATHERING.groups, batch % GATHERING.groups
    row, column = tile_position(index, rows, columns, TILING.group)
    row, column = row * BM, column * BN
    images = kl.cdiv(x.shape[0], out.shape[0])
    first = part * images

    tiles, acc = room((left, x), ACC, TILING)
    spot = Spot(kl.i32, kl.i32, kl.i32)
    spots = kl.local((2, BK), spot), kl.local(BN, spot)
    product = GATHERING.product(GATHERING.window, extent)
    origin, ends = (group * m + row, first, group * channels), (m - row, n - column, depth)
    last = kl.minimum(first + images, x.shape[0])
    reader = GatheringReader(left, x, product, spots, origin, ends, last)
    reader.begin(column)
    kl.barrier()
    steps = (last - first) * kl.cdiv(depth, BK)
    multiply(acc, tiles, reader, (0, steps), TILING)
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
