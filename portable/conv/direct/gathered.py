"""The gradient by filters as a product one of whose matrices is gathered from images as needed.

A reader of the mainloop of products (`portable.linalg.products.mainloop`), whose second matrix is
what filters saw of images, zeros outside, for any stride, padding, dilation and number of groups;
no matrix of patches lies in memory.

Where an element of that matrix lies in the images is a sum of two parts, one by its row and one by
its column (`Spot`). A tile's columns stay the same for all of its steps, so that the divisions
which a place takes are made once for them, and once in a step for each of its rows.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Device
from portable.conv.geometry import Geometry, Window
from portable.dtypes import DType, dtype
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.enqueued import enqueue
from portable.lang.launch.geometry import groups
from portable.linalg.base.tiling import Tiling
from portable.linalg.products.mainloop import multiply, room
from portable.linalg.products.model import multiplying
from portable.linalg.products.schedules import tile_position
from portable.linalg.products.tuning import candidates
from portable.tune.space import Parameters
from portable.tune.table import first_accepted


class Spot(NamedTuple):
    """A part of a place in images; two of them are added."""

    channel: Any
    y: Any
    z: Any


class Taps(NamedTuple):
    """What taps saw from places of results, `extent` of them in a row."""

    window: Any
    extent: Any

    def by_place(self, t: kl.Scalar) -> Any:
        """Of the t-th place of results."""
        down, across = self.window.stride
        return Spot(0, t // self.extent * down, t % self.extent * across)

    def by_tap(self, j: kl.Scalar) -> Any:
        """Of tap j, counted through the channels."""
        (rows, columns), (top, left) = self.window.taps, self.window.padding
        y = j // columns % rows * self.window.dilation[0] - top
        return Spot(j // (rows * columns), y, j % columns * self.window.dilation[1] - left)


@function
def pixel(x: kl.Array, n: kl.Scalar, c: kl.Scalar, y: kl.Scalar, z: kl.Scalar) -> Any:
    """An element of images; zero outside."""
    value = kl.accumulator(x.dtype)(0)
    if c < x.shape[1] and y >= 0 and y < x.shape[2] and z >= 0 and z < x.shape[3]:
        value = value.dtype(x[n, c, y, z])
    return value


class Seen(NamedTuple):
    """Images and the spots of a tile of what is seen of one of them, from a channel on."""

    x: Any
    image: Any
    first: Any
    by_row: Any
    by_column: Any


@function
def gather(tile: kl.Array, seen: Seen, n: kl.Scalar, depth: kl.Scalar) -> None:
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
                    row, channel = seen.by_row[k], seen.first + column.channel
                    y, z = row.y + column.y, row.z + column.z
                    tile[k, j] = pixel(seen.x, seen.image, channel, y, z)


class GatheringReader(NamedTuple):
    """What a tile of a gradient is made of: gradients by results, and what was seen of images.

    Attributes
    ----------
    left, x : array
        The gradients (N, K, places), and the images.
    taps : Taps
        What is seen.
    spots : (array, array)
        Of the places of two steps in turn, and of the tile's taps.
    origin : (int, int, int)
        The first filter, the first channel, and the step from which others count.
    ends : (int, int, int)
        Filters and taps of the tile that count, and the places of each image.
    last : int
        How many steps: those beyond are asked for ahead, and are zeros.
    """

    left: Any
    x: Any
    taps: Any
    spots: Any
    origin: Any
    ends: Any
    last: Any

    def begin(self, column: kl.Scalar) -> None:
        """Works out where the columns of the tile lie, and the rows of the first step."""
        _, by_column = self.spots
        for j in range(kl.local_linear_id(), by_column.shape[0], kl.local_size(0)):
            by_column[j] = self.taps.by_tap(column + j)
        self.begin_rows(0)

    def begin_rows(self, step: kl.Scalar) -> None:
        """Works out where the rows of a step lie; nobody reads those of two steps before now."""
        by_row, _ = self.spots
        depth = by_row.shape[1]
        start = (step + self.origin[2]) % kl.cdiv(self.ends[2], depth) * depth
        for k in range(kl.local_linear_id(), depth, kl.local_size(0)):
            by_row[step % 2, k] = self.taps.by_place(start + k)

    def start(self, tile_a: kl.Array, tile_b: kl.Array, step: kl.Scalar) -> None:
        """Starts to copy the tile of a step, gathers the other, and begins the next one's rows."""
        (BM, BK), (row, channel, _), (_, n, depth) = tile_a.shape, self.origin, self.ends
        deep, at = kl.cdiv(depth, BK), step + self.origin[2]
        begin, image = at % deep * BK, at // deep
        matrix = self.left[image % self.left.shape[0]]
        kl.copy_async(tile_a, matrix[row : row + BM, begin : begin + BK])
        by_row, by_column = self.spots
        seen = Seen(self.x, image, channel, by_row[step % 2], by_column)
        gather(tile_b, seen, n, kl.where(step < self.last, depth - begin, 0))
        self.begin_rows(step + 1)

    def valid(self, step: kl.Scalar) -> Any:
        """Rows, columns and products of a step that count."""
        (m, n, depth), (by_row, _) = self.ends, self.spots
        BK = by_row.shape[1]
        return m, n, depth - (step + self.origin[2]) % kl.cdiv(depth, BK) * BK


@kernel
def gathered_product(
    left: kl.Array,
    x: kl.Array,
    out: kl.Array,
    channels: kl.Scalar,
    extent: kl.Scalar,
    *,
    WINDOW: Window,
    TILING: Tiling,
) -> None:
    """``out[s, g, k, (c, r, q)]``: gradients times what the filters saw; a workgroup per tile.

    Each part s sums over as many steps of all images. Gradients `left` are (N, K, places), results
    have rows of `extent`, and `channels` is how many of `x` a group sees. The tiling has two
    stages. Local memory: ``2 (rows + columns) depth`` elements, the padding that the device's
    layout wants, and a `Spot` for each row and column.
    """
    ACC = kl.accumulator(x.dtype)
    BM, BN, BK = TILING[0:3]
    (_, count, m, n), depth = out.shape, left.shape[2]
    rows, columns = kl.cdiv(m, BM), kl.cdiv(n, BN)
    index, batch = kl.group_id(0) % (rows * columns), kl.group_id(0) // (rows * columns)
    part, group = batch // count, batch % count
    row, column = tile_position(index, rows, columns, TILING.group)
    row, column = row * BM, column * BN
    steps = x.shape[0] * kl.cdiv(depth, BK)
    begin, end = part * steps // out.shape[0], (part + 1) * steps // out.shape[0]

    tiles, acc = room((left, x), ACC, TILING)
    spot = Spot(kl.i32, kl.i32, kl.i32)
    spots = kl.local((2, BK), spot), kl.local(BN, spot)
    origin, ends = (group * m + row, group * channels, begin), (m - row, n - column, depth)
    taps = Taps(WINDOW, extent)
    reader = GatheringReader(left, x, taps, spots, origin, ends, end - begin)
    reader.begin(column)
    kl.barrier()
    multiply(acc, tiles, reader, (0, end - begin), TILING)
    acc.store(out[part, group, row : row + BM, column : column + BN])


_ENOUGH: Final = 2
"""Tiles for each compute unit above which the sums of a gradient are not cut further."""

_FEWEST_PLACES: Final = 256
"""Of results that a part sums over."""

_TILE: Final = 64
"""About the edge of a tile."""

_SLOTS: Final = 2
"""Tiles of each operand in local memory."""


def filter_gradient(
    device: Device, shape: Geometry, x: Any, dy: Any, out: Any, tried: Parameters | None = None
) -> None:
    """Makes parts of the gradient by the filters, each of some of the images.

    Parameters
    ----------
    device : Device
        Where the arrays are.
    shape : Geometry
        Of the convolution.
    x : array, shape (N, C, H, W)
        The images.
    dy : array, shape (N, K, H', W')
        The gradient by the results.
    out : array, shape (parts, K, C / groups, R, S)
        Where to put them, one element after the other.
    tried : mapping, optional
        What to use instead of the table of tuned parameters.
    """
    space, kind, (height, width) = device.namespace(), dtype(x.dtype), shape.result
    left = space.reshape(dy, (shape.images, shape.filters, height * width))
    matrices = int(out.shape[0]), shape.groups, shape.filters // shape.groups, shape.depth
    target, (m, n) = space.reshape(out, matrices), matrices[2:]
    count = prod(matrices[:2])

    def use(choice: Parameters) -> None:
        tiles = -(-m // choice["BM"]) * -(-n // choice["BN"])
        tiling = Tiling.of({**choice, "STAGES": _SLOTS, "SPECIALISED": False})
        launcher = gathered_product[groups(tiles * count), (multiplying(choice), 1, 1)]
        others = shape.channels // shape.groups, width
        enqueue(launcher, left, x, target, *others, WINDOW=shape.window, TILING=tiling)

    rung = "auto" if kind.itemsize == 2 else "register"
    choices = tiles_for(device, kind, rung, (m, n, count)) if tried is None else (tried,)
    first_accepted(choices, use)


def parts(device: Device, shape: Geometry) -> int:
    """Into how many parts a gradient by filters is cut, to have all units at work."""
    rows, columns = shape.filters // shape.groups, shape.depth
    tiles = -(-rows // _TILE) * -(-columns // _TILE) * shape.groups
    wanted = -(-_ENOUGH * device.capabilities.compute_units // tiles)
    places = shape.images * prod(shape.result)
    return max(1, min(wanted, places // _FEWEST_PLACES))


def tiles_for(
    device: Device, kind: DType, rung: str, size: tuple[int, int, int]
) -> tuple[Parameters, ...]:
    """The tiles of `gemm` of which local memory holds two slots, the best first.

    Others would be refused at each launch, after all that goes before it.

    Parameters
    ----------
    device : Device
    kind : DType
        Of images and filters.
    rung : str
        An algorithm of `gemm`.
    size : (int, int, int)
        Rows and columns of the matrices, and how many there are.
    """
    can = device.capabilities
    room = max(can.local_memory, can.local_memory_opt_in) // (_SLOTS * kind.itemsize)
    known = candidates(device, kind, rung, size)
    return tuple(x for x in known if (x["BM"] + x["BN"]) * x["BK"] <= room) or known
