"""Windows of images, and slopes on their way back through them.

Images are (n, channels, height, width). Slopes are gathered by each pixel from the windows that it
is in, so that none are added up by atomics and results are the same each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

from portable import lang as kl
from portable.conv.geometry import Pair
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["Pool", "pool", "pool_back", "row_means", "row_means_back"]


@dataclass(frozen=True, slots=True)
class Pool:
    """Windows: extents, steps and padding, vertically and horizontally; a constant of kernels."""

    taps: Pair
    stride: Pair
    padding: Pair

    def corner(self, y: Any, z: Any) -> Any:
        """The first row and column of a window, which may lie outside of the image."""
        return y * self.stride[0] - self.padding[0], z * self.stride[1] - self.padding[1]


@function
def place_of(i: Any, shape: Any) -> Any:
    """Image, channel, row and column of the i-th pixel in C order."""
    column, rest = i % shape[3], i // shape[3]
    row, rest = rest % shape[2], rest // shape[2]
    return rest // shape[1], rest % shape[1], row, column


@function
def greatest_of(x: Any, n: Any, channel: Any, top: Any, left: Any, POOL: Any) -> Any:
    """The greatest of a window and where it is among the taps: the first of them, or a NaN."""
    kind = kl.accumulator(x.dtype)
    best = kind(float("-inf"))
    found = kl.i32(-1)
    for r, s in product(kl.static_range(POOL.taps[0]), kl.static_range(POOL.taps[1])):
        row, column = top + r, left + s
        if row >= 0 and row < x.shape[2] and column >= 0 and column < x.shape[3]:
            value = kind(x[n, channel, row, column])
            if found < 0 or value > best or kl.isnan(value):
                best = value
                found = kl.i32(r * POOL.taps[1] + s)
    return best, found


@function
def mean_of(x: Any, n: Any, channel: Any, top: Any, left: Any, POOL: Any) -> Any:
    """The mean of a window, with zeros outside of the image."""
    total = kl.cast(0, kl.accumulator(x.dtype))
    for r, s in product(kl.static_range(POOL.taps[0]), kl.static_range(POOL.taps[1])):
        inside = top + r >= 0 and top + r < x.shape[2]
        if inside and left + s >= 0 and left + s < x.shape[3]:
            total += x[n, channel, top + r, left + s]
    return total / (POOL.taps[0] * POOL.taps[1])


@kernel
def pool(x: Any, y: Any, *, POOL: Pool, GREATEST: bool) -> None:
    """The greatest of each window, or the mean."""
    i = kl.global_id(0)
    if i < y.shape[0] * y.shape[1] * y.shape[2] * y.shape[3]:
        n, channel, row, column = place_of(i, y.shape)
        top, left = POOL.corner(row, column)
        if GREATEST:
            y[n, channel, row, column] = greatest_of(x, n, channel, top, left, POOL)[0]
        else:
            y[n, channel, row, column] = mean_of(x, n, channel, top, left, POOL)


@function
def windows_over(pixel: Any, count: Any, POOL: Any, d: int) -> Any:
    """The first window along a dimension that holds a pixel, and the one after the last."""
    there = pixel + POOL.padding[d]
    first = kl.maximum(there - POOL.taps[d] + POOL.stride[d], 0) // POOL.stride[d]
    return first, kl.minimum(there // POOL.stride[d] + 1, count)


@kernel
def pool_back(x: Any, dy: Any, dx: Any, *, POOL: Pool) -> None:
    """Each window's slope goes to the pixel that is its greatest; without `x` in equal parts."""
    i = kl.global_id(0)
    if i < dx.shape[0] * dx.shape[1] * dx.shape[2] * dx.shape[3]:
        n, channel, row, column = place_of(i, dx.shape)
        above, below = windows_over(row, dy.shape[2], POOL, 0)
        before, after = windows_over(column, dy.shape[3], POOL, 1)
        total = kl.cast(0, kl.accumulator(dy.dtype))
        for y in range(above, below):
            for z in range(before, after):
                if x is None:
                    total += dy[n, channel, y, z]
                else:
                    top, left = POOL.corner(y, z)
                    _, found = greatest_of(x, n, channel, top, left, POOL)
                    if found == (row - top) * POOL.taps[1] + (column - left):
                        total += dy[n, channel, y, z]
        if x is None:
            total = total / (POOL.taps[0] * POOL.taps[1])
        dx[n, channel, row, column] = total


@kernel
def row_means(x: Any, y: Any) -> None:
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
def row_means_back(dy: Any, dx: Any) -> None:
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
