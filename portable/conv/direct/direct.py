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
from math import prod
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Device
from portable.conv.geometry import Geometry, Window
from portable.conv.layouts import as_nchw, in_c_order
from portable.conv.method import Epilogue, Method, Split
from portable.dtypes import DType, dtype
from portable.lang.function import Function, function
from portable.lang.kernel import kernel
from portable.lang.launch.enqueued import enqueue
from portable.lang.launch.geometry import groups
from portable.linalg.base.tiling import Tiling
from portable.linalg.products.kernels import keep
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
        The first row of the matrices, the first channel, and the step from which others count.
    ends : (int, int, int)
        Rows and columns of the tile that count, and the extent of each image's sums.
    last : int
        How many steps: those beyond are asked for ahead, and are zeros.
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
        start = (step + self.origin[2]) % kl.cdiv(self.ends[2], depth) * depth
        for k in range(kl.local_linear_id(), depth, kl.local_size(0)):
            by_row[step % 2, k] = self.product.by_row(start + k)

    def start(self, tile_a: kl.Array, tile_b: kl.Array, step: kl.Scalar) -> None:
        """Starts to copy the tile of a step, gathers the other, and begins the next one's rows."""
        (BM, BK), (row, channel, _), (_, n, depth) = tile_a.shape, self.origin, self.ends
        deep, at = kl.cdiv(depth, BK), step + self.origin[2]
        begin, image = at % deep * BK, at // deep
        matrix = self.left[image % self.left.shape[0]]
        kl.copy_async(tile_a, matrix[row : row + BM, begin : begin + BK])
        by_row, by_column = self.spots
        seen = Seen(self.x, image, channel, by_row[step % 2], by_column)
        gather(self.product, tile_b, seen, n, kl.where(step < self.last, depth - begin, 0))
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
    bias: kl.Array | None,
    residual: kl.Array | None,
    channels: kl.Scalar,
    extent: kl.Scalar,
    *,
    GATHERING: Gathering,
) -> None:
    """A workgroup per tile of a matrix for each part and group: ``out[s, channels]``.

    Each part sums over as many steps of all images, whose results each are a part; `left` has a
    matrix for all images or one for each. `channels` is how many of `x` a group sees. The
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
    steps = x.shape[0] * kl.cdiv(depth, BK)
    begin, end = part * steps // out.shape[0], (part + 1) * steps // out.shape[0]

    tiles, acc = room((left, x), ACC, TILING)
    spot = Spot(kl.i32, kl.i32, kl.i32)
    spots = kl.local((2, BK), spot), kl.local(BN, spot)
    product = GATHERING.product(GATHERING.window, extent)
    origin, ends = (group * m + row, group * channels, begin), (m - row, n - column, depth)
    reader = GatheringReader(left, x, product, spots, origin, ends, end - begin)
    reader.begin(column)
    kl.barrier()
    multiply(acc, tiles, reader, (0, end - begin), TILING)
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


_ENOUGH: Final = 2
"""Tiles for each compute unit above which the sums of a gradient are not cut further."""

_FEWEST_PLACES: Final = 256
"""Of results that a part sums over."""

_TILE: Final = 64
"""About the edge of a tile."""

_SLOTS: Final = 2
"""Tiles of each operand in local memory."""


class Gathered(Method):
    """The product that is gathered from images as they are: of any strides and groups."""

    def run(self, x: Any, filters: Any, out: Any, epilogue: Epilogue, workspace: Any) -> None:
        """Makes results."""
        x, out = (as_nchw(self.device, a, self.layout) for a in (x, out))
        shape = self.shape
        left = self.device.namespace().reshape(filters, (1, shape.filters, shape.depth))
        numbers = (shape.channels // shape.groups, shape.result[1])
        residual = epilogue.residual_nchw(self.device, self.layout)
        arguments = (left, x, out, epilogue.bias, residual, *numbers)
        _launch(
            self.device, shape, Results, arguments, epilogue.activation, self.choice, self.splits
        )


def filter_gradient(
    device: Device, shape: Geometry, x: Any, dy: Any, out: Any, choice: Parameters | None = None
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
        Where to put them.
    choice : mapping, optional
        What to use instead of the table of tuned parameters.
    """
    space = device.namespace()
    height, width = shape.result
    left = space.reshape(dy, (shape.images, shape.filters, height * width))
    target = space.reshape(out, (out.shape[0], shape.filters, shape.depth, 1))
    depth = shape.channels // shape.groups
    _launch(
        device, shape, FilterGradient, (left, x, target, None, None, depth, width), keep, choice
    )


def parts(device: Device, shape: Geometry) -> int:
    """Into how many parts a gradient by filters is cut, to have all units at work."""
    rows, columns = shape.filters // shape.groups, shape.depth
    tiles = -(-rows // _TILE) * -(-columns // _TILE) * shape.groups
    wanted = -(-_ENOUGH * device.capabilities.compute_units // tiles)
    places = shape.images * prod(shape.result)
    return max(1, min(wanted, places // _FEWEST_PLACES))


def _launch(
    device: Device,
    shape: Geometry,
    product: Any,
    arguments: tuple[Any, ...],
    activation: Function,
    tried: Parameters | None = None,
    split: Split = False,
) -> None:
    """A workgroup for each tile of each matrix of the target."""
    left, x, out, bias, residual, *others = arguments
    kind = dtype(x.dtype)
    parts, channels, height, width = out.shape
    count, m, n = parts * shape.groups, channels // shape.groups, height * width
    flat = shape.groups == 1 and in_c_order(device, out)
    flat = flat and (residual is None or in_c_order(device, residual))
    if flat:
        out = device.namespace().reshape(out, (parts, channels, 1, n))
        if residual is not None:
            residual = device.namespace().reshape(residual, (parts, channels, 1, n))

    def use(choice: Parameters) -> None:
        tiles = -(-m // choice["BM"]) * -(-n // choice["BN"])
        tiling = Tiling.of({**choice, "STAGES": _SLOTS, "SPECIALISED": False}, split=split)
        gathering = Gathering(product, shape.window, shape.groups, flat, tiling, activation)
        launcher = gathered_product[groups(tiles * count), (multiplying(choice), 1, 1)]
        enqueue(launcher, left, x, out, bias, residual, *others, GATHERING=gathering)

    rung = "auto" if kind.itemsize == 2 else "tf32" if split else "register"
    choices = tiles_for(device, kind, rung, (m, n, count)) if tried is None else (tried,)
    first_accepted(choices, use)


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
