"""What windows pass to pixels as a matrix of its own: one product, added up where windows meet.

The product holds what every window passes to each pixel that it saw (col2im). Its results are as
many times the images as windows share pixels. So it is for gradients by images whose windows share
none, and for few channels, which leave tiles of other products empty; a convolution with few
filters is such a gradient too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Any, Final

from portable import lang as kl
from portable.backend import Device
from portable.conv.direct.box_kernels import arrange
from portable.conv.geometry import Geometry, Layout, Window
from portable.conv.method import Epilogue, Method
from portable.dtypes import DType, dtype
from portable.lang.arguments.arguments import ALIGNMENT
from portable.lang.kernel import kernel
from portable.lang.launch.enqueued import enqueue
from portable.primitives.maps.elementwise_kernel import product_of, unravelled

_NOTHING: Final = Epilogue()

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
        arrange(w, space.permute_dims(room, (2, 3, 0, 1)), filters)
        w = room
    return space.reshape(w, (filters, count, 1, 1))


@kernel
def add_windows(
    parts: kl.Array,
    out: kl.Array,
    channels: kl.Scalar,
    bias: kl.Array | None,
    residual: kl.Array | None,
    *,
    WINDOW: Window,
    LANES: int,
    LAST: bool,
    ACTIVATION: Any,
) -> None:
    """Adds up what windows pass to pixels, zeros to those that none saw.

    `parts` are (N, H', W', taps C) for images `out` (N, H, W, C) if channels are `LAST`, else (N, C
    taps, H', W') for (N, C, H, W), and what is done to sums then is for these alone. A work-item
    makes `LANES` neighbours.
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
            if bias is not None:
                total += total.dtype(bias[a])
            if residual is not None:
                total += total.dtype(residual[n, a, b, d])
            out[n, a, b, d] = ACTIVATION(total)


def add_up_windows(
    shape: Geometry, parts: Any, out: Any, layout: Layout, epilogue: Epilogue = _NOTHING
) -> None:
    """Makes images of what windows pass to their pixels.

    Parameters
    ----------
    shape : Geometry
        Of the convolution.
    parts : array, shape (N, H', W', taps C or more), or (N, C taps, H', W') for "NCHW"
        What they pass.
    out : array
        The images, one element after the other.
    layout : {"NCHW", "NHWC"}
    epilogue : Epilogue
        What is done to sums; with channels last nothing is.
    """
    last = layout == "NHWC"
    lanes = gcd(shape.channels, ALIGNMENT // dtype(out.dtype).itemsize, _MOST_LANES) if last else 1
    launcher = add_windows[prod(out.shape) // lanes, None]
    bias, activation, residual = epilogue
    how = {"WINDOW": shape.window, "LANES": lanes, "LAST": last, "ACTIVATION": activation}
    enqueue(launcher, parts, out, shape.channels, bias, residual, **how)


# A convolution with few filters as the gradient by images of one from these to the channels.

_FEW_FILTERS: Final = 16
_FEWEST_TAPS: Final = 25
_FEWEST_CHANNELS: Final = 64
"""Of which tiles of other products stay empty: on an H200 7 x 7 of 440 channels to 16 filters took
108 us so instead of 581, 5 x 5 of 200 to 8 29 instead of 40 (3 x 3 of 264 to 16 82, not 57)."""


def has_few_filters(shape: Geometry) -> bool:
    """Whether it is for few filters of many taps, without strides, that one product pays."""
    window = shape.window
    many = _FEWEST_TAPS <= window.count <= _MOST_TAPS and shape.channels >= _FEWEST_CHANNELS
    few = shape.groups == 1 and shape.filters <= _FEW_FILTERS and window.stride == (1, 1)
    return many and few and min(_turned(shape).window.padding) >= 0


def _turned(shape: Geometry) -> Geometry:
    """The convolution whose gradient by images one without strides is."""
    window = shape.window
    sides = zip(window.taps, window.dilation, window.padding, strict=True)
    down, across = ((taps - 1) * along - before for taps, along, before in sides)
    turned = Window(window.taps, (1, 1), (down, across), window.dilation)
    return Geometry(shape.images, shape.filters, *shape.result, shape.channels, 1, turned)


@dataclass(frozen=True, kw_only=True)
class FewFilters(Method):
    """What pixels pass to results by all taps of filters: one product, then added up.

    Attributes
    ----------
    product : Method
        Of pixels, by `product_of_filters`.
    """

    product: Method

    @property
    def _parts(self) -> tuple[int, ...]:
        """The extents of what is added up."""
        seen = self.product.shape
        return seen.images, seen.filters, *seen.result

    def workspace(self) -> tuple[int, int]:
        """Elements of workspace: what is added up, and the product's."""
        return (prod(self._parts) + self.product.workspace()[0],) * 2

    def filters(self, w: Any, turned: bool = False) -> Any:
        """Those of the product."""
        shape = self.shape
        if not turned:
            w = replace(self, shape=_turned(shape)).turned_filters(w)
        seen = window_filters(self.device, _turned(shape), w, self.layout)
        return self.product.filters(seen, turned=True)

    def run(self, x: Any, filters: Any, out: Any, epilogue: Epilogue, workspace: Any) -> None:
        """Makes results."""
        size = prod(self._parts)
        parts = self.device.namespace().reshape(workspace[:size], self._parts)
        self.product.run(x, filters, parts, Epilogue(), workspace[size:])
        add_up_windows(_turned(self.shape), parts, out, self.layout, epilogue)


def product_of_filters(shape: Geometry, kind: DType) -> Geometry:
    """The convolution of one tap from pixels to what all taps of filters pass on."""
    return product_of_windows(_turned(shape), kind, "NCHW")
