"""What windows see as a matrix of its own: one product then convolves, or makes gradients.

For a gradient by images the product holds what every window passes to each pixel that it saw, and
is added up where windows meet (col2im). These matrices are as many times the images as windows
share pixels. So they are for windows that share none, and for few channels, which leave tiles of
other products empty.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from math import gcd, prod
from typing import Any, Final

from portable import lang as kl
from portable.backend import Device
from portable.conv.direct.box_kernels import arrange_filters, seen_by
from portable.conv.direct.product import Product
from portable.conv.geometry import Geometry, Layout, Window
from portable.conv.method import Epilogue, Method, most_workspace
from portable.dtypes import DType, dtype
from portable.lang.arguments.arguments import ALIGNMENT
from portable.lang.kernel import kernel
from portable.lang.launch.enqueued import enqueue
from portable.primitives.maps.elementwise_kernel import product_of, unravelled

_POINT: Final = Window((1, 1), (1, 1), (0, 0), (1, 1))
_MOST_LANES: Final = 8

_FEW: Final = 8
"""Channels up to which windows may share pixels."""

_MOST_TAPS: Final = 64

_FEWEST_FILTERS: Final = 128
_MOST_WRITTEN: Final = 2**23
"""Filters that make up for what is written, of few channels; for fewer, elements that caches hold:
5 x 5 and 7 x 7 of 3 channels took 0.44 to 0.77 of the time of a gathered product so on an H200, 7 x
7 for 64 filters of 32 images of 224 x 224 1.7 times as long."""


def goes_by_windows(shape: Geometry, written: bool = False) -> bool:
    """Whether windows share no pixel, or there are few channels.

    Parameters
    ----------
    shape : Geometry
    written : bool
        Whether what they see is written out.
    """
    window = shape.window
    sides = zip(window.taps, window.stride, strict=True)
    apart = window.dilation == (1, 1) and all(taps <= step for taps, step in sides)
    apart = apart and window.stride != (1, 1)
    few = shape.channels <= _FEW and 1 < window.count <= _MOST_TAPS
    if written and shape.filters < _FEWEST_FILTERS:
        few = few and shape.images * prod(shape.result) * shape.depth <= _MOST_WRITTEN
    return shape.groups == 1 and (apart or few) and min(window.padding) >= 0


def product_of_windows(shape: Geometry, kind: DType, layout: Layout) -> Geometry:
    """The convolution of one tap from results to what windows saw, taps more for aligned rows."""
    taps = shape.window.count
    while layout == "NHWC" and taps * shape.channels * kind.itemsize % ALIGNMENT:
        taps += 1
    seen = taps * shape.channels
    return Geometry(shape.images, shape.filters, *shape.result, seen, 1, _POINT)


def window_filters(device: Device, shape: Geometry, w: Any, layout: Layout) -> Any:
    """Filters (K, what windows saw, 1, 1), taps before channels for "NHWC"."""
    space, kind = device.namespace(), dtype(w.dtype)
    count, (filters, channels) = product_of_windows(shape, kind, layout).filters, w.shape[:2]
    if layout == "NHWC" and shape.window.count > 1:
        room = device.empty((1, filters, count // channels, channels), kind)
        launcher = arrange_filters[(filters, channels), None]
        taps = shape.window.taps
        arranged = space.permute_dims(room, (2, 3, 0, 1))
        enqueue(launcher, w, arranged, filters, 1, TAPS=taps, TURNED=False)
        w = room
    return space.reshape(w, (filters, count, 1, 1))


@kernel
def add_windows(
    parts: kl.Array, out: kl.Array, channels: kl.Scalar, *, WINDOW: Window, LANES: int, LAST: bool
) -> None:
    """Adds up what windows pass to pixels, zeros to those that none saw.

    `parts` are (N, H', W', taps C) for images `out` (N, H, W, C) if channels are `LAST`, else (N, C
    taps, H', W') for (N, C, H, W). A work-item makes `LANES` neighbours.
    """
    extents = out.shape[0], out.shape[1], out.shape[2], out.shape[3] // LANES
    if kl.global_id(0) < product_of(extents):
        n, a, b, d = unravelled(kl.global_id(0), extents)
        d *= LANES
        (DOWN, ACROSS), (TOP, LEFT), ALONG = WINDOW.stride, WINDOW.padding, WINDOW.dilation
        ROWS, COLUMNS = WINDOW.taps
        i, j, first = (a, b, 1) if LAST else (b, d, 2)
        total = (
            kl.splat(kl.accumulator(out.dtype)(0), LANES) if LAST else kl.accumulator(out.dtype)(0)
        )
        for tap in kl.static_range(ROWS * COLUMNS):
            y = i + TOP - tap // COLUMNS * ALONG[0]
            z = j + LEFT - tap % COLUMNS * ALONG[1]
            met = y >= 0 and z >= 0 and y % DOWN == 0 and z % ACROSS == 0
            y, z = y // DOWN, z // ACROSS
            if met and y < parts.shape[first] and z < parts.shape[first + 1]:
                if LAST:
                    total = total + kl.vload(parts, n, y, z, tap * channels + d, lanes=LANES)
                else:
                    total += parts[n, a * (ROWS * COLUMNS) + tap, y, z]
        if LAST:
            kl.vstore(out, n, a, b, d, total)
        else:
            out[n, a, b, d] = total


def add_up_windows(device: Device, shape: Geometry, parts: Any, out: Any, layout: Layout) -> None:
    """Makes images of what windows pass to their pixels.

    Parameters
    ----------
    device : Device
        Where they are.
    shape : Geometry
        Of the convolution.
    parts : array, shape (N, H', W', taps C or more), or (N, C taps, H', W') for "NCHW"
        What they pass.
    out : array
        The images, one element after the other.
    layout : {"NCHW", "NHWC"}
    """
    last = layout == "NHWC"
    lanes = gcd(shape.channels, ALIGNMENT // dtype(out.dtype).itemsize, _MOST_LANES) if last else 1
    launcher = add_windows[prod(out.shape) // lanes, None]
    enqueue(launcher, parts, out, shape.channels, WINDOW=shape.window, LANES=lanes, LAST=last)


@kernel
def take_windows(x: kl.Array, out: kl.Array, *, WINDOW: Window) -> None:
    """``out[n, c taps + tap, y, z]``: what windows of images (N, C, H, W) see, or zero (im2col)."""
    if kl.global_id(0) < product_of(out.shape):
        n, d, y, z = unravelled(kl.global_id(0), out.shape)
        c, tap = d // WINDOW.count, d % WINDOW.count
        out[n, d, y, z] = seen_by(x, n, c, tap, y, z, WINDOW)


class Windows(Method):
    """The product of filters and what windows see, which is written out first."""

    @cached_property
    def product(self) -> Product:
        """That product, of one image or more."""
        seen = product_of_windows(self.shape, self.kind, "NCHW")
        seen = replace(seen, channels=seen.filters, filters=self.shape.filters)
        return Product(self.device, seen, self.kind, "NCHW")

    def workspace(self) -> tuple[int, int]:
        """Elements of workspace: what windows see of all images, if there is room, and of one."""
        seen = self.product.shape
        each = seen.channels * prod(seen.result)
        most = max(1, most_workspace(self.device) // (each * self.kind.itemsize))
        return min(self.shape.images, most) * each, each

    def filters(self, w: Any, turned: bool = False) -> Any:
        """Filters (K, what windows see)."""
        w, seen = super().filters(w, turned), self.product.shape
        w = self.device.namespace().reshape(w, (seen.filters, seen.channels, 1, 1))
        return self.product.filters(w)

    def run(self, x: Any, filters: Any, out: Any, epilogue: Epilogue, workspace: Any) -> None:
        """Makes results."""
        space, seen, (_, each) = self.device.namespace(), self.product.shape, self.workspace()
        batch = workspace.shape[0] // each
        for first in range(0, self.shape.images, batch):
            images = slice(first, first + batch)
            count = int(x[images].shape[0])
            parts = workspace[: count * each]
            parts = space.reshape(parts, (count, seen.channels, *seen.result))
            enqueue(take_windows[count * each, None], x[images], parts, WINDOW=self.shape.window)
            product = replace(self.product, shape=replace(seen, images=count))
            product.run(parts, filters, out[images], epilogue.of_images(images), None)
