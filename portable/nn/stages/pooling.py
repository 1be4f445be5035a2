"""Pooling layers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Final

from portable import lang as kl
from portable.conv.geometry import Pair
from portable.dtypes import uint8, uint32
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.nn.layers.layer import Flow
from portable.nn.layers.unweighted import AvgPool2d, MaxPool2d
from portable.nn.stages.stage import Place, Stage

# Windows of images, and slopes on their way back through them.
#
# Images are (n, channels, height, width). Slopes are gathered by each pixel from the windows that
# it is in, so that none are added up by atomics and results are the same each time.


@dataclass(frozen=True, slots=True)
class Pool:
    """Windows: extents, steps and padding, vertically and horizontally; a constant of kernels."""

    taps: Pair
    stride: Pair
    padding: Pair

    def corner(self, y: kl.Scalar, z: kl.Scalar) -> Any:
        """The first row and column of a window, which may lie outside of the image."""
        return y * self.stride[0] - self.padding[0], z * self.stride[1] - self.padding[1]

    def windows(self, d: int) -> int:
        """How many windows a pixel is in at most, along a dimension."""
        return -(-self.taps[d] // self.stride[d])


@function
def place_of(shape: tuple[kl.Scalar, ...]) -> Any:
    """Image, channel, row and column of a work-item; neighbours lie side by side in a row."""
    column, rest = kl.global_id(0), kl.global_id(1)
    row, rest = rest % shape[2], rest // shape[2]
    return rest // shape[1], rest % shape[1], row, column


@function
def is_inside(x: kl.Array, row: kl.Scalar, column: kl.Scalar, POOL: Pool) -> Any:
    """Whether a pixel of a window is one of the image; known where there is no padding."""
    if POOL.padding == (0, 0):
        return True
    return (row >= 0) & (row < x.shape[2]) & (column >= 0) & (column < x.shape[3])


@function
def greatest_of(
    x: kl.Array, n: kl.Scalar, channel: kl.Scalar, top: kl.Scalar, left: kl.Scalar, POOL: Pool
) -> Any:
    """The greatest of a window and where it is among the taps: the first of them, or a NaN."""
    kind = kl.accumulator(x.dtype)
    best = kind(float("-inf"))
    tap = kl.i32(-1)
    for r, s in product(kl.static_range(POOL.taps[0]), kl.static_range(POOL.taps[1])):
        if is_inside(x, top + r, left + s, POOL):
            value = kind(x[n, channel, top + r, left + s])
            greater = (tap < 0) | (value > best) | kl.isnan(value)
            best = kl.where(greater, value, best)
            tap = kl.where(greater, kl.i32(r * POOL.taps[1] + s), tap)
    return best, tap


@function
def mean_of(
    x: kl.Array, n: kl.Scalar, channel: kl.Scalar, top: kl.Scalar, left: kl.Scalar, POOL: Pool
) -> Any:
    """The mean of a window, with zeros outside of the image."""
    total = kl.cast(0, kl.accumulator(x.dtype))
    for r, s in product(kl.static_range(POOL.taps[0]), kl.static_range(POOL.taps[1])):
        if is_inside(x, top + r, left + s, POOL):
            total += x[n, channel, top + r, left + s]
    return total / (POOL.taps[0] * POOL.taps[1])


@kernel
def pool(x: kl.Array, y: kl.Array, taps: kl.Array | None, *, POOL: Pool, GREATEST: bool) -> None:
    """The greatest of each window, or the mean; a work-item for each, by column and row.

    Parameters
    ----------
    x, y : array, shape (n, channels, height, width)
    taps : array of int, shape of `y`, or None
        Where to note which tap was the greatest.
    POOL : Pool
    GREATEST : bool
    """
    n, channel, row, column = place_of(y.shape)
    if n < y.shape[0] and column < y.shape[3]:
        top, left = POOL.corner(row, column)
        if GREATEST:
            best, tap = greatest_of(x, n, channel, top, left, POOL)
            y[n, channel, row, column] = best
            if taps is not None:
                taps[n, channel, row, column] = tap
        else:
            y[n, channel, row, column] = mean_of(x, n, channel, top, left, POOL)


@kernel
def pool_back(taps: kl.Array | None, dy: kl.Array, dx: kl.Array, *, POOL: Pool) -> None:
    """Each window's slope goes to its greatest pixel; without `taps` in equal parts to all.

    Parameters
    ----------
    taps : array of int, shape of `dy`, or None
        Of `pool`.
    dy, dx : array, shape (n, channels, height, width)
    POOL : Pool
    """
    n, channel, row, column = place_of(dx.shape)
    if n < dx.shape[0] and column < dx.shape[3]:
        down, across = row + POOL.padding[0], column + POOL.padding[1]
        total = kl.cast(0, kl.accumulator(dy.dtype))
        over = kl.static_range(POOL.windows(0)), kl.static_range(POOL.windows(1))
        for i, j in product(*over):
            y, z = down // POOL.stride[0] - i, across // POOL.stride[1] - j
            r, s = down - y * POOL.stride[0], across - z * POOL.stride[1]
            inside = (y >= 0) & (y < dy.shape[2]) & (z >= 0) & (z < dy.shape[3])
            if inside & (r < POOL.taps[0]) & (s < POOL.taps[1]):
                takes_part = taps is None or taps[n, channel, y, z] == kl.u32(r * POOL.taps[1] + s)
                total += kl.where(takes_part, dy[n, channel, y, z], 0)
        if taps is None:
            total = total / (POOL.taps[0] * POOL.taps[1])
        dx[n, channel, row, column] = total


@kernel
def row_means(x: kl.Array, y: kl.Array) -> None:
    """The mean of each row, by a workgroup.

    Parameters
    ----------
    x : array, shape (rows, columns)
    y : array, shape (rows,)
    """
    row = kl.group_id(0)
    total = kl.cast(0, kl.accumulator(x.dtype))
    for i in kl.workgroup_range(x.shape[1]):
        total += x[row, i]
    total = kl.workgroup_reduce(kl.add, total)
    if kl.local_id(0) == 0:
        y[row] = total / x.shape[1]


@kernel
def row_means_back(dy: kl.Array, dx: kl.Array) -> None:
    """A row's slope in equal parts.

    Parameters
    ----------
    dy : array, shape (rows,)
    dx : array, shape (rows, columns)
    """
    i = kl.global_id(0)
    columns = dx.shape[1]
    if i < dx.shape[0] * columns:
        row = i // columns
        dx[row, i % columns] = dy[row] / columns


_WORKGROUP: Final = 64
_MOST_IN_BYTES: Final = 255
"""Taps of a window whose numbers fit in a byte."""


class PoolStage(Stage):
    """The greatest of each window, or the mean."""

    def __init__(self, at: Place, layer: MaxPool2d | AvgPool2d) -> None:
        super().__init__(at)
        self._pool = Pool(*layer.window())
        self._greatest = isinstance(layer, MaxPool2d)
        self._taps: Any = None

    def forward(self, x: Any, y: Any, scratch: Any) -> None:
        """A work-item for each window."""
        pool[_pixels(y), None](x, y, None, POOL=self._pool, GREATEST=self._greatest)

    def train(self, x: Any, y: Any, scratch: Any) -> None:
        """Likewise; which pixel was the greatest is kept."""
        taps = self._taps_of(y) if self._greatest else None
        pool[_pixels(y), None](x, y, taps, POOL=self._pool, GREATEST=self._greatest)

    def _taps_of(self, y: Any) -> Any:
        """Memory for a number of each window, of its own from the way there to the way back."""
        count = prod(y.shape)
        if self._taps is None or self._taps.shape[0] < count:
            few = prod(self._pool.taps) <= _MOST_IN_BYTES
            self._taps = self.place.device.empty((count,), uint8 if few else uint32)
        return self.place.device.namespace().reshape(self._taps[:count], tuple(y.shape))

    def backward(self, flow: Flow, gradients: tuple[Any, ...], scratch: Any) -> None:
        """A work-item for each pixel."""
        if flow.dx is not None:
            taps = self._taps_of(flow.dy) if self._greatest else None
            pool_back[_pixels(flow.dx), None](taps, flow.dy, flow.dx, POOL=self._pool)


def _pixels(x: Any) -> tuple[int, int]:
    """Work-items for the pixels of images: columns, and rows of all of them."""
    return x.shape[3], prod(x.shape[:3])


class GlobalPoolStage(Stage):
    """The mean of each channel."""

    def forward(self, x: Any, y: Any, scratch: Any) -> None:
        """A workgroup for each channel of an image."""
        rows, columns = self._rows(x), self.place.inputs[1] * self.place.inputs[2]
        reshape = self.place.device.namespace().reshape
        items = 1 if self.place.device.capabilities.single_work_items else _WORKGROUP
        row_means[groups(rows), items](reshape(x, (rows, columns)), reshape(y, (rows,)))

    def backward(self, flow: Flow, gradients: tuple[Any, ...], scratch: Any) -> None:
        """A work-item for each pixel."""
        if flow.dx is not None:
            rows, columns = self._rows(flow.x), self.place.inputs[1] * self.place.inputs[2]
            reshape = self.place.device.namespace().reshape
            row_means_back[rows * columns, _WORKGROUP](
                reshape(flow.dy, (rows,)), reshape(flow.dx, (rows, columns))
            )

    def _rows(self, x: Any) -> int:
        return int(x.shape[0]) * self.place.inputs[0]
