"""Depthwise convolution where a work-item has a processor's core to itself: lanes are channels.

A work-item copies what a block of rows of results sees of a vector of channels, zeros outside of
images, so that every pixel is an aligned vector; where pixels are neighbours in memory, squares of
them are transposed in registers on their way there, and those of results on their way back.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Device
from portable.conv.direct.grouped import Grouped, GroupPlan, put_result
from portable.conv.geometry import Geometry
from portable.conv.layouts import as_nchw, in_c_order, in_rows
from portable.conv.method import Epilogue, activated
from portable.dtypes import DType
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.enqueued import enqueue
from portable.lang.launch.geometry import groups
from portable.linalg.products.kernels import keep
from portable.linalg.products.rows import copy_into
from portable.primitives.base.lanes import mixed

_FEWEST: Final = 4
"""Channels of a vector."""

_PIXELS: Final = 14
"""Neighbouring results that registers hold, at most."""

_BEGUN: Final = 2
"""Results of a tile in whose time it is begun."""

_PACKED: Final = 4
"""Products in whose time a pixel is copied."""

_FINISHED: Final = 6
"""Products in whose time a result is transposed and written."""

_CACHE: Final = 2**18
"""Bytes of a block that stay in a core's cache."""

_ITEMS: Final = 2
"""Work-items for each core."""


class Sizes(NamedTuple):
    """How images are cut, numbers that kernels are given.

    Attributes
    ----------
    rows : int
        Of results, in a block.
    height, width : int
        What a block sees, zeros included.
    image, result : (int, int)
        Rows and columns.
    """

    rows: Any
    height: Any
    width: Any
    image: tuple[Any, Any]
    result: tuple[Any, Any]


class Block(NamedTuple):
    """An image, the first of a vector of channels, and the rows of results from one on."""

    image: Any
    channel: Any
    row: Any
    rows: Any


@kernel
def convolve_channels(
    x: kl.Array,
    w: kl.Array,
    v: kl.Array,
    out: kl.Array,
    bias: kl.Array | None,
    residual: kl.Array | None,
    sizes: Sizes,
    *,
    PLAN: GroupPlan,
) -> None:
    """The results of blocks of rows of an image for a vector of channels, one after the other.

    Images `x`, results `out` and `residual` are (N, C, H, W) of any strides where channels are
    neighbours, else (N, C, 1, H W). Filters `w` are (R, S, 1, C). ``v[i]`` is room for what
    work-item i sees, and behind it for results, a vector of channels a place.
    """
    chunks, down = out.shape[1] // PLAN.lanes, kl.cdiv(sizes.result[0], sizes.rows)
    places = v[kl.group_id(0)]
    for index in range(kl.group_id(0), out.shape[0] * down * chunks, kl.num_groups(0)):
        chunk, rest = index % chunks, index // chunks
        n, row = rest // down, rest % down * sizes.rows
        rows = kl.minimum(sizes.rows, sizes.result[0] - row)
        block = Block(n, chunk * PLAN.lanes, row, rows)
        pack_block(x, places, block, sizes, PLAN)
        sum_block(w, places, bias, block, sizes, PLAN)
        finish_block(places, out, residual, block, sizes, PLAN)


@function
def pack_block(x: kl.Array, places: kl.Array, block: Block, sizes: Sizes, PLAN: GroupPlan) -> None:
    """Copies what a block sees, zeros outside of the image."""
    (height, width), LEFT = sizes.image, PLAN.window.padding[1]
    first = block.row * PLAN.window.stride[0] - PLAN.window.padding[0]
    low, high = kl.maximum(first, 0), kl.minimum(first + sizes.height, height)
    for i in range(sizes.height):
        to, inside = i * sizes.width, first + i >= low and first + i < high
        left = LEFT if inside else sizes.width
        clear(places, to, to + left, PLAN.lanes)
        clear(places, to + left + width, to + sizes.width, PLAN.lanes)
    if PLAN.channels_fast:
        for row in range(low, high):
            to = (row - first) * sizes.width + LEFT
            for j in range(width):
                value = kl.vload(x, block.image, block.channel, row, j, lanes=PLAN.lanes, axis=1)
                kl.vstore(places, to + j, 0, value)
    else:
        to = (low - first) * sizes.width + LEFT
        pack_pixels(x, places, block, low * width, high * width, to, sizes, PLAN)


@function
def clear(places: kl.Array, start: kl.Scalar, stop: kl.Scalar, LANES: int) -> None:
    """Zeros."""
    for j in range(start, stop):
        kl.vstore(places, j, 0, kl.splat(places.dtype(0), LANES))


@function
def pack_pixels(
    x: kl.Array,
    places: kl.Array,
    block: Block,
    start: kl.Scalar,
    stop: kl.Scalar,
    to: kl.Scalar,
    sizes: Sizes,
    PLAN: GroupPlan,
) -> None:
    """Copies whole rows of pixels, whose channels are far apart, by squares."""
    n, first, _, _ = block
    L, z = PLAN.lanes, 0
    whole = kl.maximum(stop - start, 0) // L * L
    for p in range(start, start + whole, L):
        lines = tuple(kl.vload(x, n, first + k, 0, p, lanes=L) for k in range(L))
        pixels = mixed(lines, L, L)
        for k in kl.static_range(L):
            kl.vstore(places, to, 0, pixels[k])
            to, z = next_place(to, z, sizes)
    for p in range(start + whole, stop):
        for k in kl.static_range(L):
            places[to, k] = places.dtype(x[n, first + k, 0, p])
        to, z = next_place(to, z, sizes)


@function
def next_place(to: kl.Scalar, z: kl.Scalar, sizes: Sizes) -> Any:
    """Where the pixel behind the one of column `z` goes, and its column: the next row's is 0."""
    last, between = z + 1 == sizes.image[1], sizes.width - sizes.image[1]
    return to + 1 + kl.where(last, between, 0), kl.where(last, 0, z + 1)


@function
def sum_block(
    w: kl.Array,
    places: kl.Array,
    bias: kl.Array | None,
    block: Block,
    sizes: Sizes,
    PLAN: GroupPlan,
) -> None:
    """The sums of a block, behind what it sees; a row's last tile may make some of them again."""
    L, PIXELS, (DOWN, ACROSS) = PLAN.lanes, PLAN.tile[1], PLAN.window.stride
    columns, sums_at = sizes.result[1], sizes.height * sizes.width
    begin = kl.splat(places.dtype(0), L)
    if bias is not None:
        begin = kl.vload(bias, block.channel, lanes=L)
    for i in range(block.rows):
        for tile in range(0, columns, PIXELS):
            z = kl.minimum(tile, columns - PIXELS)
            sums = kl.private((PIXELS,), places.dtype, lanes=L)
            for j in kl.static_range(PIXELS):
                sums[j] = begin
            for r in kl.range(PLAN.window.taps[0], unroll=1):
                row = i * DOWN + r * PLAN.window.dilation[0]
                add_taps(sums, w[r], places, block.channel, row * sizes.width + z * ACROSS, PLAN)
            for j in kl.static_range(PIXELS):
                kl.vstore(places, sums_at + i * columns + z + j, 0, sums[j])


@function
def add_taps(
    sums: kl.Array,
    w: kl.Array,
    places: kl.Array,
    channel: kl.Scalar,
    at: kl.Scalar,
    PLAN: GroupPlan,
) -> None:
    """Adds the products of a row of taps: each pixel is read once."""
    L, TAPS = PLAN.lanes, PLAN.window.taps[1]
    weights = tuple(kl.vload(w, s, 0, channel, lanes=L) for s in range(TAPS))
    for t in kl.static_range(len(PLAN.columns)):
        J = PLAN.columns[t]
        pixel = kl.vload(places, at + J, 0, lanes=L)
        for u in kl.static_range(len(PLAN.across[J])):
            RESULT, TAP = PLAN.across[J][u]
            sums[RESULT] = kl.fma(weights[TAP], pixel, sums[RESULT])


@function
def finish_block(
    places: kl.Array,
    out: kl.Array,
    residual: kl.Array | None,
    block: Block,
    sizes: Sizes,
    PLAN: GroupPlan,
) -> None:
    """Writes a block's results."""
    L, columns, sums_at = PLAN.lanes, sizes.result[1], sizes.height * sizes.width
    if PLAN.channels_fast:
        for i in range(block.rows):
            for z in range(columns):
                value = kl.vload(places, sums_at + i * columns + z, 0, lanes=L)
                corner = block.image, block.channel, block.row + i, z
                put_result(value, out, corner, None, residual, PLAN)
    else:
        count, whole = block.rows * columns, 0
        if PLAN.lanewise:
            whole = count // L * L
            for p in range(0, whole, L):
                put_square(places, sums_at + p, out, residual, block, block.row * columns + p, PLAN)
        for p in range(whole, count):
            for k in kl.static_range(L):
                channel, to = block.channel + k, block.row * columns + p
                value = places[sums_at + p, k]
                if residual is not None:
                    value += value.dtype(residual[block.image, channel, 0, to])
                out[block.image, channel, 0, to] = PLAN.activation(value)


@function
def put_square(
    places: kl.Array,
    at: kl.Scalar,
    out: kl.Array,
    residual: kl.Array | None,
    block: Block,
    to: kl.Scalar,
    PLAN: GroupPlan,
) -> None:
    """Finishes and writes as many neighbouring results as vectors have lanes."""
    (n, first, _, _), L = block, PLAN.lanes
    pixels = tuple(kl.vload(places, at + k, 0, lanes=L) for k in range(L))
    lines = mixed(pixels, L, L)
    for k in kl.static_range(L):
        value = lines[k]
        if residual is not None:
            value = value + kl.vload(residual, n, first + k, 0, to, lanes=L)
        kl.vstore(out, n, first + k, 0, to, PLAN.activation(value))


def lanes_of(device: Device, shape: Geometry, kind: DType) -> int:
    """Channels of a vector, at most 16, which divide those that there are."""
    return gcd(shape.channels, device.capabilities.vector_bytes // kind.register.itemsize, 16)


def is_depthwise(device: Device, shape: Geometry, kind: DType) -> bool:
    """Whether filters see a channel each, of which vectors hold several, and all of images."""
    each = shape.groups == shape.channels == shape.filters > 1 and min(shape.window.padding) >= 0
    return each and lanes_of(device, shape, kind) >= _FEWEST


@dataclass(frozen=True)
class Depthwise(Grouped):
    """Depthwise convolution of any window, a vector of channels at a time."""

    @property
    def workspace_kind(self) -> DType:
        """The type to sum in."""
        return self.kind.register

    def workspace(self) -> tuple[int, int]:
        """Elements of workspace: what a block of each work-item sees, and its results."""
        return (prod(self._extents),) * 2

    def run(self, x: Any, filters: Any, out: Any, epilogue: Epilogue, workspace: Any) -> None:
        """Makes results."""
        device = self.device
        x, out = (as_nchw(device, a, self.layout) for a in (x, out))
        residual, target = epilogue.residual_nchw(device, self.layout), out
        if self.layout == "NCHW":
            count = prod(self.shape.result)
            x = in_rows(device, x, self.shape.height * self.shape.width)
            target = in_rows(device, out, count, written=True)
            residual = residual if residual is None else in_rows(device, residual, count)
        plan = activated(self.plan, epilogue.activation)
        v = device.namespace().reshape(workspace[: prod(self._extents)], self._extents)
        launcher = convolve_channels[groups(self._extents[0]), 1]
        given = x, filters, v, target, epilogue.bias, residual, self.sizes
        enqueue(launcher, *given, PLAN=plan)
        if self.layout == "NCHW" and not in_c_order(device, out):
            copy_into(device.namespace().reshape(target, out.shape), out)

    @cached_property
    def plan(self) -> GroupPlan:
        """Tiles of a row's results that leave least over, and of these the largest."""
        columns, last = self.shape.result[1], self.layout == "NHWC"
        most = min(_PIXELS, columns)
        pixels = min(range(1, most + 1), key=lambda n: (-(-columns // n) * (n + _BEGUN), -n))
        lanes = lanes_of(self.device, self.shape, self.kind)
        return GroupPlan(
            self.shape.window, (1, pixels), 1, lanes, 1, True, last, keep, lanewise=True
        )

    @cached_property
    def sizes(self) -> Sizes:
        """Of blocks that a core's cache holds, those by which the last core is done first."""
        shape = self.shape
        (_, columns), (_, across) = shape.result, shape.window.stride
        spread = (shape.window.taps[1] - 1) * shape.window.dilation[1]
        width = max((columns - 1) * across + spread + 1, shape.window.padding[1] + shape.width)
        image = shape.height, shape.width
        cuts = [Sizes(rows, self._seen(rows), width, image, shape.result) for rows in self._rows()]
        fitting = [cut for cut in cuts if self._places(cut) * self._place <= _CACHE]
        return min(fitting or cuts[:1], key=self._cost)

    def _rows(self) -> list[int]:
        """Rows of results that blocks may have, the fewest first."""
        height = self.shape.result[0]
        return sorted({-(-height // n) for n in range(1, height + 1)})

    def _seen(self, rows: int) -> int:
        """Rows of images that so many rows of results see."""
        window = self.shape.window
        return (rows - 1) * window.stride[0] + (window.taps[0] - 1) * window.dilation[0] + 1

    @property
    def _place(self) -> int:
        """Bytes of a vector."""
        return self.plan.lanes * self.kind.register.itemsize

    def _places(self, cut: Sizes) -> int:
        """Vectors that a work-item keeps."""
        return int(cut.height * cut.width + cut.rows * cut.result[1])

    def _count(self, cut: Sizes) -> int:
        """Blocks of all images."""
        chunks = self.shape.channels // self.plan.lanes
        return int(self.shape.images * chunks * -(-cut.result[0] // cut.rows))

    def _cost(self, cut: Sizes) -> float:
        """Products of the core that is done last, or what takes as long."""
        units = max(1, self.device.capabilities.compute_units)
        each = _PACKED * cut.height * cut.width
        each += cut.rows * cut.result[1] * (self.shape.window.count + _FINISHED)
        return float(-(-self._count(cut) // units) * each)

    @cached_property
    def _extents(self) -> tuple[int, int, int]:
        """Of the workspace: work-items, places and lanes."""
        units = max(1, self.device.capabilities.compute_units)
        items = min(self._count(self.sizes), _ITEMS * units)
        return items, self._places(self.sizes), self.plan.lanes
