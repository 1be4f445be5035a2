"""The shapes of a convolution, and what is wrong with those that are none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from operator import index
from typing import Any, Final, Literal

from portable.errors import ShapeError

__all__ = ["TAPS", "Geometry", "Layout", "Pair", "Window", "geometry", "pair", "suits_winograd"]

Pair = tuple[int, int]
Layout = Literal["NCHW", "NHWC"]

TAPS: Final = 3
"""Filters of Winograd's method are three by three."""


@dataclass(frozen=True, slots=True)
class Window:
    """What a filter sees of an image, vertically and horizontally; a constant of kernels.

    Attributes
    ----------
    taps : (int, int)
        Extents of the filter.
    stride : (int, int)
        Steps from one result to the next.
    padding : (int, int)
        Rows and columns of zeros on each side.
    dilation : (int, int)
        Steps from one tap to the next.
    """

    taps: Pair
    stride: Pair
    padding: Pair
    dilation: Pair

    @property
    def count(self) -> int:
        """How many taps there are."""
        return self.taps[0] * self.taps[1]


@dataclass(frozen=True, slots=True)
class Geometry:
    """A convolution's extents.

    Attributes
    ----------
    images, channels, height, width : int
        Of the input; `channels` is those of all groups.
    filters : int
        Channels of the result, those of all groups.
    groups : int
        Parts of the channels that see each other.
    window : Window
    """

    images: int
    channels: int
    height: int
    width: int
    filters: int
    groups: int
    window: Window

    @property
    def result(self) -> Pair:
        """Height and width of the result."""
        return self._along(self.height, 0), self._along(self.width, 1)

    @property
    def depth(self) -> int:
        """Products that are summed for a result."""
        return self.channels // self.groups * prod(self.window.taps)

    def _along(self, extent: int, d: int) -> int:
        window = self.window
        seen = window.dilation[d] * (window.taps[d] - 1) + 1
        return (extent + 2 * window.padding[d] - seen) // window.stride[d] + 1


def suits_winograd(shape: Geometry) -> bool:
    """Whether it is a convolution of three by three taps, without strides and dilation."""
    window = shape.window
    return (window.taps, window.stride, window.dilation) == ((TAPS, TAPS), (1, 1), (1, 1))


def geometry(
    x: tuple[int, ...], w: tuple[int, ...], stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Geometry:
    """The convolution of images with filters.

    Parameters
    ----------
    x : tuple of int
        The images' shape (N, C, H, W).
    w : tuple of int
        The filters' shape (K, C / groups, R, S).
    stride, padding, dilation : (int, int)
        Vertically and horizontally.
    groups : int
        Parts of the channels that see each other.

    Raises
    ------
    ShapeError
        If they do not fit together.
    """
    if len(x) != 4 or len(w) != 4:
        raise ShapeError(
            f"conv2d takes images (N, C, H, W) and filters (K, C / groups, R, S), not shapes {x} "
            f"and {w}"
        )
    if groups < 1 or x[1] % groups or w[0] % groups:
        raise ShapeError(
            f"groups={groups} does not divide {x[1]} channels and {w[0]} filters into equal parts"
        )
    if x[1] // groups != w[1]:
        raise ShapeError(
            f"filters of shape {w} take {w[1]} channels; images of shape {x} have {x[1]}"
            + (f", {x[1] // groups} in each of {groups} groups" if groups > 1 else "")
        )
    taps = (w[2], w[3])
    if min(taps) < 1:
        raise ShapeError(f"filters of shape {w} have no taps")
    found = Geometry(*x, w[0], groups, Window(taps, stride, padding, dilation))
    if min(found.result) < 1:
        raise ShapeError(
            f"filters of {taps[0]} x {taps[1]} with dilation {dilation} are larger than images of "
            f"{x[2]} x {x[3]} with padding {padding}"
        )
    return found


def pair(name: str, value: Any, least: int) -> Pair:
    """A number for both directions, or one for each.

    Parameters
    ----------
    name : str
        What it is called, for the error.
    value : int or (int, int)
        What was given.
    least : int
        The smallest that it may be.

    Raises
    ------
    ValueError
        If it is none, or one is less than `least`.
    """
    both = tuple(value) if isinstance(value, Iterable) else (value, value)
    try:
        found = tuple(map(index, both))
    except TypeError:
        found = ()
    if len(found) != 2 or min(found) < least:
        raise ValueError(f"{name}={value!r}: it takes an integer from {least} on, or two of them")
    return found[0], found[1]
