"""Gradients by images of windows that share no pixel: one product, whose elements are spread."""

from __future__ import annotations

from math import gcd, prod
from typing import Any, Final

from portable import lang as kl
from portable.backend import Device
from portable.conv.geometry import Geometry, Layout, Window
from portable.dtypes import dtype
from portable.lang.arguments.arguments import ALIGNMENT
from portable.lang.kernel import kernel
from portable.lang.launch.enqueued import enqueue
from portable.primitives.maps.elementwise_kernel import product_of, unravelled

_POINT: Final = Window((1, 1), (1, 1), (0, 0), (1, 1))
_MOST_LANES: Final = 8


def are_apart(shape: Geometry) -> bool:
    """Whether every pixel is seen by one tap of one window at most, and windows see only pixels."""
    window = shape.window
    sides = zip(window.taps, window.stride, strict=True)
    plain = window.dilation == (1, 1) and window.padding == (0, 0)
    inside = plain and shape.behind in (None, (0, 0)) and shape.groups == 1
    return inside and window.stride != (1, 1) and all(taps <= step for taps, step in sides)


def product_of_windows(shape: Geometry) -> Geometry:
    """The convolution of one tap from results to what their windows saw."""
    seen = shape.channels * shape.window.count
    return Geometry(shape.images, shape.filters, *shape.result, seen, 1, _POINT)


@kernel
def spread_windows(
    parts: kl.Array, out: kl.Array, *, WINDOW: Window, LANES: int, LAST: bool
) -> None:
    """What windows saw to where they saw it, zeros to pixels that none saw.

    `parts` are (N, H', W', taps, C) for images `out` (N, H, W, C) if channels are `LAST`, else (N,
    C, taps, H', W') for (N, C, H, W). A work-item writes `LANES` neighbours.
    """
    extents = out.shape[0], out.shape[1], out.shape[2], out.shape[3] // LANES
    if kl.global_id(0) < product_of(extents):
        n, a, b, d = unravelled(kl.global_id(0), extents)
        y, z, d = (a, b, d * LANES) if LAST else (b, d, d)
        (DOWN, ACROSS), (ROWS, COLUMNS) = WINDOW.stride, WINDOW.taps
        r, q, y, z = y % DOWN, z % ACROSS, y // DOWN, z // ACROSS
        down, across = (
            (parts.shape[1], parts.shape[2]) if LAST else (parts.shape[3], parts.shape[4])
        )
        value = kl.splat(kl.accumulator(out.dtype)(0), LANES) if LANES > 1 else 0
        if r < ROWS and q < COLUMNS and y < down and z < across:
            tap = r * COLUMNS + q
            if LAST:
                value = kl.vload(parts, n, y, z, tap, d, lanes=LANES)
            else:
                value = parts[n, a, tap, y, z]
        if LAST:
            kl.vstore(out, n, a, b, d, value)
        else:
            out[n, a, b, d] = value


def spread(device: Device, shape: Geometry, parts: Any, out: Any, layout: Layout) -> None:
    """Makes images of what the windows of a convolution saw.

    Parameters
    ----------
    device : Device
        Where they are.
    shape : Geometry
        Of the convolution.
    parts : array, shape (N, H', W', taps C), or (N, C taps, H', W') for "NCHW"
        What they saw.
    out : array
        The images, one element after the other.
    layout : {"NCHW", "NHWC"}
    """
    last, taps = layout == "NHWC", shape.window.count
    around = (taps, shape.channels) if last else (shape.channels, taps)
    places = tuple(parts.shape[1:3] if last else parts.shape[2:])
    extents = (shape.images, *places, *around) if last else (shape.images, *around, *places)
    lanes = gcd(shape.channels, ALIGNMENT // dtype(out.dtype).itemsize, _MOST_LANES) if last else 1
    launcher = spread_windows[prod(out.shape) // lanes, None]
    given = device.namespace().reshape(parts, extents), out
    enqueue(launcher, *given, WINDOW=shape.window, LANES=lanes, LAST=last)
