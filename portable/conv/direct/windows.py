"""What windows pass to pixels as a matrix of its own: one product then makes gradients by images.

The product holds what every window passes to each pixel that it saw, and is added up where windows
meet (col2im). Its results are as many times the images as windows share pixels. So it is for
windows that share none, and for few channels, which leave tiles of other products empty.
"""

from __future__ import annotations

from math import gcd, prod
from typing import Any, Final

from portable import lang as kl
from portable.backend import Device
from portable.conv.direct.box_kernels import arrange_filters
from portable.conv.geometry import Geometry, Layout, Window
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


def goes_by_windows(shape: Geometry) -> bool:
    """Whether windows share no pixel, or there are few channels."""
    window = shape.window
    sides = zip(window.taps, window.stride, strict=True)
    apart = window.dilation == (1, 1) and all(taps <= step for taps, step in sides)
    apart = apart and window.stride != (1, 1)
    few = shape.channels <= _FEW and 1 < window.count <= _MOST_TAPS
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
