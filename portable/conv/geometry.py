"""The shapes of a convolution, and what is wrong with those that are none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from operator import index
from typing import Any, Final, Literal

from portable.errors import ShapeError

Pair = tuple[int, int]
Layout = Literal["NCHW", "NHWC"]
Padding = Pair | tuple[Pair, Pair] | Literal["same"]

TAPS: Final = (3, 5, 7)
"""Filters of Winograd's method have so many rows and columns."""

_MOST_INPUTS: Final = 8
"""Of its tiles, along a dimension."""


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
        Rows of zeros above and columns of them on the left; negative ones leave pixels out.
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
    behind : (int, int), optional
        Rows of zeros below and columns of them on the right; as many as before if left out.
    """

    images: int
    channels: int
    height: int
    width: int
    filters: int
    groups: int
    window: Window
    behind: Pair | None = None

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
        before = window.padding[d]
        padding = before + (before if self.behind is None else self.behind[d])
        return (extent + padding - seen) // window.stride[d] + 1


def suits_winograd(shape: Geometry, results: int = 2) -> bool:
    """Whether it is a convolution of as many taps both ways, without strides and dilation.

    Zeros behind images are there where some are before them.

    Parameters
    ----------
    shape : Geometry
    results : int
        Of a tile along a dimension.
    """
    window = shape.window
    behind = window.padding if shape.behind is None else shape.behind
    padded = all(a >= 0 and (a > 0 or b <= 0) for a, b in zip(window.padding, behind, strict=True))
    taps = window.taps[0]
    plain = (window.taps, window.stride, window.dilation) == ((taps, taps), (1, 1), (1, 1))
    return plain and padded and taps in TAPS and results + taps - 1 <= _MOST_INPUTS


def geometry(
    x: tuple[int, ...],
    w: tuple[int, ...],
    stride: Pair,
    padding: Padding,
    dilation: Pair,
    groups: int,
) -> Geometry:
    """The convolution of images with filters.

    Parameters
    ----------
    x : tuple of int
        The images' shape (N, C, H, W).
    w : tuple of int
        The filters' shape (K, C / groups, R, S).
    stride, dilation : (int, int)
        Vertically and horizontally.
    padding : (int, int), ((int, int), (int, int)) or "same"
        Vertically and horizontally on both sides, or before and after; "same" for as many results
        as there are pixels for each stride.
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
    before, behind = _sides(x[2:], taps, stride, padding, dilation)
    shape = Geometry(*x, w[0], groups, Window(taps, stride, before, dilation), behind)
    if min(shape.result) < 1:
        raise ShapeError(
            f"filters of {taps[0]} x {taps[1]} with dilation {dilation} are larger than images of "
            f"{x[2]} x {x[3]} with padding {padding}"
        )
    return shape


def _sides(
    extents: tuple[int, ...], taps: Pair, stride: Pair, padding: Padding, dilation: Pair
) -> tuple[Pair, Pair | None]:
    """Zeros before images, and behind them; None for as many."""
    if padding == "same":
        more = [
            max(0, (-(-n // s) - 1) * s + d * (t - 1) + 1 - n)
            for n, t, s, d in zip(extents, taps, stride, dilation, strict=True)
        ]
        before = more[0] // 2, more[1] // 2
        behind = more[0] - before[0], more[1] - before[1]
        return before, None if behind == before else behind
    (down, across) = padding
    if isinstance(down, tuple) and isinstance(across, tuple):
        before, behind = (down[0], across[0]), (down[1], across[1])
        return before, None if behind == before else behind
    return padding, None  # type: ignore[return-value]


def padding_of(value: Any) -> Padding:
    """What is given as ``padding=``, checked.

    Raises
    ------
    ValueError
        For anything but "same", an integer from 0 on, two, or two pairs of them.
    """
    if isinstance(value, str):
        if value != "same":
            raise ValueError(f'padding={value!r}: it takes an integer from 0 on, two, or "same"')
        return "same"
    if isinstance(value, Iterable):
        sides = tuple(value)
        if any(isinstance(side, Iterable) for side in sides):
            if len(sides) != 2:
                raise ValueError(f"padding={value!r}: it takes two pairs, of rows and of columns")
            return pair("padding", sides[0], 0), pair("padding", sides[1], 0)
        value = sides
    return pair("padding", value, 0)


def pair(name: str, value: Any, least: int) -> Pair:
    """A number for both directions, or one for each, as of `numbers`."""
    first, second = numbers(name, value, least, 2)
    return first, second


def numbers(name: str, value: Any, least: int, count: int) -> tuple[int, ...]:
    """A number for all directions, or one for each.

    Parameters
    ----------
    name : str
        What it is called, for the error.
    value : int or tuple of int
        What was given.
    least : int
        The smallest that it may be.
    count : int
        Directions, two or three.

    Raises
    ------
    ValueError
        If it is none, or one is less than `least`.
    """
    given = tuple(value) if isinstance(value, Iterable) else (value,) * count
    try:
        whole = tuple(map(index, given))
    except TypeError:
        whole = ()
    if len(whole) != count or min(whole) < least:
        several = {2: "two", 3: "three"}[count]
        raise ValueError(
            f"{name}={value!r}: it takes an integer from {least} on, or {several} of them"
        )
    return whole
