"""The gradient by images as convolutions of the gradient by results, without strides.

With a stride s, pixels whose place leaves the same rest met the same taps, every s-th of the
filter, or every s / g-th where g divides the dilation too: each of these phases is a convolution of
stride 1 with those taps, turned around. So all ways of convolving make gradients by images too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import gcd, prod
from typing import Any, Final, NamedTuple

from portable.backend import Device
from portable.conv.direct.adding import clear
from portable.conv.direct.boxes import channels_last
from portable.conv.direct.windows import (
    add_up_windows,
    goes_by_windows,
    product_of_windows,
    window_filters,
)
from portable.conv.geometry import Geometry, Window
from portable.conv.layouts import as_nchw, in_c_order
from portable.conv.method import Epilogue, most_workspace
from portable.conv.route import route
from portable.conv.settings import Settings
from portable.dtypes import dtype
from portable.errors import UnsupportedError
from portable.linalg.products.rows import copy_into
from portable.tune.table import state

# -- phases ----------------------------------------------------------------------------------------

_FEWEST_TURNED: Final = 32
"""Channels, and filters, from which on images with channels first are copied for all phases."""


class _Side(NamedTuple):
    """A phase along one dimension.

    Attributes
    ----------
    first : int
        The first pixel.
    extent : int
        How many there are.
    tap, taps : int
        The first tap that they met, and how many.
    before, behind : int
        Zeros around gradients by results; negative ones leave some out.
    step, dilation : int
        From one of these taps to the next, in the filter and over gradients by results.
    """

    first: int
    extent: int
    tap: int
    taps: int
    before: int
    behind: int
    step: int
    dilation: int


@dataclass(frozen=True, slots=True)
class Phase:
    """Some pixels of images, and the convolution that makes their gradient.

    Attributes
    ----------
    shape : Geometry
        Of that convolution, from filters to channels; None where no tap met the pixels.
    """

    stride: tuple[int, int]
    first: tuple[int, int]
    tap: tuple[int, int]
    step: tuple[int, int]
    shape: Geometry | None

    def pixels(self, images: Any) -> Any:
        """A view of the phase's pixels of images (N, C, H, W)."""
        (down, across), (row, column) = self.stride, self.first
        return images[:, :, row::down, column::across]

    def taps(self, filters: Any) -> Any:
        """A view of the taps that they met."""
        (down, across), (row, column) = self.step, self.tap
        return filters[:, :, row::down, column::across]


@lru_cache(maxsize=1024)
def phases(shape: Geometry) -> tuple[Phase, ...]:
    """Those of a convolution.

    Parameters
    ----------
    shape : Geometry
        Of the convolution that made results of images.
    """
    sides = [_sides(shape, d) for d in (0, 1)]
    return tuple(_phase(shape, down, across) for down, across in product(*sides))


def _sides(shape: Geometry, d: int) -> list[_Side]:
    window, extent = shape.window, (shape.height, shape.width)[d]
    stride, spread, padding = window.stride[d], window.dilation[d], window.padding[d]
    common = gcd(stride, spread)
    step, dilation = stride // common, spread // common
    sides = []
    for first in range(min(stride, extent)):
        count = -(-(extent - first) // stride)
        met = [r for r in range(step) if (first + padding - r * spread) % stride == 0]
        tap = met[0] if met else window.taps[d]
        taps = len(range(tap, window.taps[d], step))
        before = (taps - 1) * dilation - (first + padding - tap * spread) // stride
        behind = count - shape.result[d] - before + (taps - 1) * dilation
        sides.append(_Side(first, count, tap, taps, before, behind, step, dilation))
    return sides


def _phase(shape: Geometry, down: _Side, across: _Side) -> Phase:
    firsts, taps, steps, dilations, before, behind = (
        (getattr(down, name), getattr(across, name))
        for name in ("first", "tap", "step", "dilation", "before", "behind")
    )
    if not (down.taps and across.taps):
        return Phase(shape.window.stride, firsts, taps, steps, None)
    window = Window((down.taps, across.taps), (1, 1), before, dilations)
    phase = Geometry(
        shape.images, shape.filters, *shape.result, shape.channels, shape.groups, window,
        None if behind == before else behind,
    )  # fmt: skip
    return Phase(shape.window.stride, firsts, taps, steps, phase)


def make_from_phases(
    device: Device,
    shape: Geometry,
    dy: Any,
    w: Any,
    result: Any,
    given: Settings,
    epilogue: Epilogue,
) -> None:
    """Makes the gradient by images, or a transposed convolution.

    Parameters
    ----------
    device : Device
        Where the arrays are.
    shape : Geometry
        Of the convolution whose gradient it is.
    dy, w : array
        The gradient by results, and the filters.
    result : array
        Where to put the gradient by images, in the layout of `dy`.
    given : Settings
        Layout and algorithm.
    epilogue : Epilogue
        Without a residual; with a bias or an activation every pixel must be met by a tap.

    Raises
    ------
    UnsupportedError
        For Winograd's algorithms with strides.
    """
    parts = phases(shape)
    if given.algorithm not in ("auto", "direct") and len(parts) > 1:
        raise UnsupportedError(
            f'algorithm={given.algorithm!r} takes a stride of 1; use "direct" or "auto"'
        )
    flat = in_c_order(device, result)
    if flat and dy.size and _is_one_product(device, shape, epilogue):
        _make_by_windows(device, shape, dy, w, result, given)
        return
    if flat and dy.size and _pays_to_turn(device, shape, given, len(parts)):
        _make_turned(device, shape, dy, w, result, given, epilogue)
        return
    target = as_nchw(device, result, given.layout)
    for part in parts:
        if part.shape is None:
            clear(part.pixels(target))
        else:
            _make_phase(device, part, part.shape, dy, w, target, given, epilogue)


def _is_one_product(device: Device, shape: Geometry, epilogue: Epilogue) -> bool:
    """Whether windows go together as one product, and nothing else is done to their sums."""
    crowd = not device.capabilities.single_work_items
    return crowd and goes_by_windows(shape) and epilogue.is_empty


def _make_by_windows(
    device: Device, shape: Geometry, dy: Any, w: Any, result: Any, given: Settings
) -> None:
    """Makes the gradient by one product, of as many images at a time as there is room for."""
    kind, layout = dtype(dy.dtype), given.layout
    each = replace(product_of_windows(shape, kind, layout), images=1)
    size = prod(each.result) * each.filters * kind.itemsize
    batch = max(1, min(shape.images, most_workspace(device) // size))
    w = window_filters(device, shape, w, layout)
    for first in range(0, shape.images, batch):
        slopes, images = dy[first : first + batch], result[first : first + batch]
        seen = replace(each, images=int(slopes.shape[0]))
        way = route(device, seen, kind, layout, "direct", state(), False, given.precision)
        parts = device.empty(way.result_shape, kind)
        filters = way.method.filters(w, turned=True)
        way.method.run(slopes, filters, parts, Epilogue(), way.new_workspace())
        add_up_windows(shape, parts, images, layout)


def _pays_to_turn(device: Device, shape: Geometry, given: Settings, count: int) -> bool:
    """Whether phases are made with channels last: each would copy all gradients by itself."""
    crowd = not device.capabilities.single_work_items
    deep = min(shape.channels, shape.filters) // shape.groups >= _FEWEST_TURNED
    return crowd and deep and count > 1 and given.layout == "NCHW"


def _make_turned(
    device: Device,
    shape: Geometry,
    dy: Any,
    w: Any,
    result: Any,
    given: Settings,
    epilogue: Epilogue,
) -> None:
    """As `make_from_phases`, of copies with channels last."""
    space, kind = device.namespace(), dtype(dy.dtype)
    images, (height, width) = shape.images, shape.result
    slopes = device.empty((images, height, width, shape.filters), kind)
    channels_last(device, dy, slopes)
    whole = device.empty((images, shape.height, shape.width, shape.channels), kind)
    turned = replace(given, layout="NHWC")
    make_from_phases(device, shape, slopes, w, whole, turned, epilogue)
    pixels = space.reshape(whole, (images, shape.height * shape.width, shape.channels))
    target = space.reshape(result, (images, shape.channels, shape.height * shape.width))
    copy_into(pixels, space.permute_dims(target, (0, 2, 1)))


def _make_phase(
    device: Device,
    part: Phase,
    shape: Geometry,
    dy: Any,
    w: Any,
    target: Any,
    given: Settings,
    epilogue: Epilogue,
) -> None:
    """The gradient by some pixels of `target` (N, C, H, W)."""
    kind = dtype(w.dtype)
    way = route(device, shape, kind, given.layout, given.algorithm, state(), False, given.precision)
    filters = way.method.filters(part.taps(w), turned=True)
    pixels = part.pixels(target)
    if given.layout == "NHWC":
        pixels = device.namespace().permute_dims(pixels, (0, 2, 3, 1))
    way.method.run(dy, filters, pixels, epilogue, way.new_workspace())
