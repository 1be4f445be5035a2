"""Convolution as a product of matrices one of which is gathered from images as it is needed.

A tile kernel like `portable.linalg.gemm_kernels.gemm_tiles`, but what it multiplies are functions
of row and column: elements of images under a window, zeros outside. So one kernel makes results and
both gradients, of any stride, padding, dilation and number of groups, and no matrix of patches lies
in memory.

All arrays are seen as (N, C, H, W), however they lie. The `batch` of a tile is an image and a
group, or for gradients by filters a part of the images and a group.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from portable import lang as kl
from portable.conv.geometry import Window
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.gemm_kernels import tile_position

__all__ = ["FilterGradient", "ImageGradient", "Results", "gathered_product"]


@function
def pixel(x: Any, n: Any, c: Any, y: Any, z: Any, valid: Any) -> Any:
    """An element of images where `valid`; zero elsewhere and outside."""
    value = kl.accumulator(x.dtype)(0)
    if valid and y >= 0 and y < x.shape[2] and z >= 0 and z < x.shape[3]:
        value = value.dtype(x[n, c, y, z])
    return value


class Results(NamedTuple):
    """``out[n, k, y, z]``: filters times patches.

    A tile has filters as rows and places of one image as columns.
    """

    x: Any
    w: Any
    out: Any
    window: Window
    groups: int

    @function
    def extents(self) -> Any:
        """Rows, columns and depth."""
        depth = self.w.shape[1] * self.window.taps[0] * self.window.taps[1]
        return self.out.shape[1] // self.groups, self.out.shape[2] * self.out.shape[3], depth

    @function
    def left(self, batch: Any, row: Any, k: Any) -> Any:
        """The filter's tap k."""
        down, across = self.window.taps
        filter = batch % self.groups * (self.out.shape[1] // self.groups) + row
        return self.w[filter, k // (down * across), k // across % down, k % across]

    @function
    def right(self, batch: Any, k: Any, column: Any) -> Any:
        """What tap k sees from a place of the result."""
        window = self.window
        down, across = window.taps
        channel = batch % self.groups * self.w.shape[1] + k // (down * across)
        y, z = column // self.out.shape[3], column % self.out.shape[3]
        y = y * window.stride[0] + k // across % down * window.dilation[0] - window.padding[0]
        z = z * window.stride[1] + k % across * window.dilation[1] - window.padding[1]
        return pixel(self.x, batch // self.groups, channel, y, z, True)

    @function
    def store(self, batch: Any, row: Any, column: Any, value: Any, bias: Any) -> Any:
        """Where a result belongs, and what it is with its bias."""
        channel = batch % self.groups * (self.out.shape[1] // self.groups) + row
        if bias is not None:
            value += value.dtype(bias[channel])
        y, z = column // self.out.shape[3], column % self.out.shape[3]
        return (batch // self.groups, channel, y, z), value


class ImageGradient(NamedTuple):
    """``out[n, c, y, z]``, the gradient by the images: filters times gradients by what saw them.

    A tile has channels of the images as rows and places of one image as columns; `x` holds the
    gradient by the results.
    """

    x: Any
    w: Any
    out: Any
    window: Window
    groups: int

    @function
    def extents(self) -> Any:
        """Rows, columns and depth."""
        depth = self.w.shape[0] // self.groups * self.window.taps[0] * self.window.taps[1]
        return self.w.shape[1], self.out.shape[2] * self.out.shape[3], depth

    @function
    def filter(self, batch: Any, k: Any) -> Any:
        """The filter of term k."""
        down, across = self.window.taps
        return batch % self.groups * (self.w.shape[0] // self.groups) + k // (down * across)

    @function
    def left(self, batch: Any, row: Any, k: Any) -> Any:
        """Tap k of the channel."""
        down, across = self.window.taps
        return self.w[self.filter(batch, k), row, k // across % down, k % across]

    @function
    def right(self, batch: Any, k: Any, column: Any) -> Any:
        """The gradient by the result whose tap k saw this place; zero where there is none."""
        window = self.window
        down, across = window.taps
        y = (
            column // self.out.shape[3]
            + window.padding[0]
            - k // across % down * window.dilation[0]
        )
        z = column % self.out.shape[3] + window.padding[1] - k % across * window.dilation[1]
        seen = y % window.stride[0] == 0 and z % window.stride[1] == 0
        y, z = y // window.stride[0], z // window.stride[1]
        return pixel(self.x, batch // self.groups, self.filter(batch, k), y, z, seen)

    @function
    def store(self, batch: Any, row: Any, column: Any, value: Any, bias: Any) -> Any:
        """Where a gradient belongs, and what it is."""
        channel = batch % self.groups * self.w.shape[1] + row
        y, z = column // self.out.shape[3], column % self.out.shape[3]
        return (batch // self.groups, channel, y, z), value


class FilterGradient(NamedTuple):
    """``out[s, k, c, r, q]``, the gradient by the filters: gradients times what the filters saw.

    A tile has filters as rows and taps as columns. Part s of the images is summed for itself, so
    that there are tiles for all of a device; `x` holds the images, `w` the gradient by the results.
    """

    x: Any
    w: Any
    out: Any
    window: Window
    groups: int

    @function
    def extents(self) -> Any:
        """Rows, columns and depth."""
        taps = self.window.taps[0] * self.window.taps[1]
        depth = self.images() * self.w.shape[2] * self.w.shape[3]
        return self.out.shape[1] // self.groups, self.out.shape[2] * taps, depth

    @function
    def images(self) -> Any:
        """How many a part has, but the last."""
        return kl.cdiv(self.x.shape[0], self.out.shape[0])

    @function
    def place(self, batch: Any, k: Any) -> Any:
        """Image, row and column of the result of term k."""
        height, width = self.w.shape[2], self.w.shape[3]
        n = batch // self.groups * self.images() + k // (height * width)
        return n, k // width % height, k % width

    @function
    def left(self, batch: Any, row: Any, k: Any) -> Any:
        """The gradient by a result."""
        n, y, z = self.place(batch, k)
        filter = batch % self.groups * (self.out.shape[1] // self.groups) + row
        return pixel(self.w, n, filter, y, z, n < self.x.shape[0])

    @function
    def right(self, batch: Any, k: Any, column: Any) -> Any:
        """What the tap saw from the place of the result."""
        window = self.window
        down, across = window.taps
        n, y, z = self.place(batch, k)
        y = y * window.stride[0] + column // across % down * window.dilation[0] - window.padding[0]
        z = z * window.stride[1] + column % across * window.dilation[1] - window.padding[1]
        channel = batch % self.groups * self.out.shape[2] + column // (down * across)
        return pixel(self.x, n, channel, y, z, n < self.x.shape[0])

    @function
    def store(self, batch: Any, row: Any, column: Any, value: Any, bias: Any) -> Any:
        """Where a part of a gradient belongs, and what it is."""
        down, across = self.window.taps
        filter = batch % self.groups * (self.out.shape[1] // self.groups) + row
        tap = (column // (down * across), column // across % down, column % across)
        return (batch // self.groups, filter, *tap), value


@kernel
def gathered_product(
    x: Any,
    w: Any,
    out: Any,
    bias: Any,
    *,
    PRODUCT: Any,
    WINDOW: Window,
    GROUPS: int,
    BM: int,
    BN: int,
    BK: int,
    GROUP: int,
    UNITS: bool,
    ACC: Any,
    ACTIVATION: Any,
) -> None:
    """A workgroup per ``BM x BN`` tile of one of the products above.

    Two slots in local memory: while one is multiplied the other is filled. Local memory:
    ``2 (BM + BN) BK`` elements and the padding that the device's layout wants.
    """
    product = PRODUCT(x, w, out, WINDOW, GROUPS)
    m, n, depth = product.extents()
    rows, columns = kl.cdiv(m, BM), kl.cdiv(n, BN)
    index, batch = kl.group_id(0) % (rows * columns), kl.group_id(0) // (rows * columns)
    row, column = tile_position(index, rows, columns, GROUP)
    row, column = row * BM, column * BN
    tile_a, tile_b = kl.local((2, BM, BK), x.dtype), kl.local((2, BK, BN), x.dtype)
    acc = kl.matrix((BM, BN), ACC, scope="workgroup", units=UNITS)
    acc.fill(0)
    fill_tiles(product, tile_a[0], tile_b[0], batch, row, column, 0)
    kl.barrier()
    for start in range(0, depth, BK):
        now = start // BK % 2
        if start + BK < depth:
            fill_tiles(product, tile_a[1 - now], tile_b[1 - now], batch, row, column, start + BK)
        kl.mma(acc, tile_a[now], tile_b[now], valid=(m - row, n - column, depth - start))
        kl.barrier()
    for i, j, value in kl.elements(acc):
        if row + i < m and column + j < n:
            place, total = product.store(batch, row + i, column + j, value, bias)
            out[*place] = ACTIVATION(total)


@function
def fill_tiles(
    product: Any, tile_a: Any, tile_b: Any, batch: Any, row: Any, column: Any, start: Any
) -> None:
    """The workgroup gathers what a step multiplies; zeros beyond the matrices."""
    m, n, depth = product.extents()
    own, size = kl.local_linear_id(), kl.local_size(0)
    for e in range(own, tile_a.shape[0] * tile_a.shape[1], size):
        i, k = e // tile_a.shape[1], e % tile_a.shape[1]
        tile_a[i, k] = 0
        if row + i < m and start + k < depth:
            tile_a[i, k] = product.left(batch, row + i, start + k)
    for e in range(own, tile_b.shape[0] * tile_b.shape[1], size):
        k, j = e // tile_b.shape[1], e % tile_b.shape[1]
        tile_b[k, j] = 0
        if column + j < n and start + k < depth:
            tile_b[k, j] = product.right(batch, start + k, column + j)
