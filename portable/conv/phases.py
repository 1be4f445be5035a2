"""The gradient by images as convolutions of the gradient by results, without strides.

With a stride s, pixels whose place leaves the same rest met the same taps, every s-th of the
filter: each of these phases is a convolution of stride 1 with those taps, turned around. So all
ways of convolving make gradients by images too.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import gcd
from typing import Any, NamedTuple

from portable.conv.geometry import Geometry, Window

__all__ = ["Phase", "phases"]


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
    """

    first: int
    extent: int
    tap: int
    taps: int
    before: int
    behind: int


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
    shape: Geometry | None

    def pixels(self, images: Any) -> Any:
        """A view of the phase's pixels of images (N, C, H, W)."""
        (down, across), (row, column) = self.stride, self.first
        return images[:, :, row::down, column::across]

    def taps(self, filters: Any) -> Any:
        """A view of the taps that they met."""
        (down, across), (row, column) = self.stride, self.tap
        return filters[:, :, row::down, column::across]


def phases(shape: Geometry) -> list[Phase] | None:
    """Those of a convolution; None where dilation and stride have a common divisor.

    Parameters
    ----------
    shape : Geometry
        Of the convolution that made results of images.
    """
    window = shape.window
    if any(gcd(s, d) > 1 for s, d in zip(window.stride, window.dilation, strict=True)):
        return None
    sides = [_sides(shape, d) for d in (0, 1)]
    return [_phase(shape, down, across) for down, across in product(*sides)]


def _sides(shape: Geometry, d: int) -> list[_Side]:
    window, extent = shape.window, (shape.height, shape.width)[d]
    stride, spread, padding = window.stride[d], window.dilation[d], window.padding[d]
    found = []
    for first in range(min(stride, extent)):
        own = -(-(extent - first) // stride)
        tap = next(r for r in range(stride) if (first + padding - r * spread) % stride == 0)
        taps = len(range(tap, window.taps[d], stride))
        before = (taps - 1) * spread - (first + padding - tap * spread) // stride
        behind = own - shape.result[d] - before + (taps - 1) * spread
        found.append(_Side(first, own, tap, taps, before, behind))
    return found


def _phase(shape: Geometry, down: _Side, across: _Side) -> Phase:
    places = (down.first, across.first), (down.tap, across.tap)
    if not (down.taps and across.taps):
        return Phase(shape.window.stride, *places, None)
    before = down.before, across.before
    window = Window((down.taps, across.taps), (1, 1), before, shape.window.dilation)
    behind = down.behind, across.behind
    own = Geometry(
        shape.images, shape.filters, *shape.result, shape.channels, shape.groups, window,
        None if behind == before else behind,
    )  # fmt: skip
    return Phase(shape.window.stride, *places, own)
