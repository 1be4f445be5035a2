"""Layers that put pixels of images together."""

from __future__ import annotations

from dataclasses import dataclass

from portable.conv.geometry import Pair, geometry, pair
from portable.errors import ShapeError
from portable.nn.layers.layer import Layer, Shape, check_images


@dataclass(frozen=True)
class _Pool2d(Layer):
    """Windows that slide over each channel of images (channels, height, width)."""

    kernel_size: int | Pair
    stride: int | Pair | None = None
    padding: int | Pair = 0

    def __post_init__(self) -> None:
        taps, _, padding = self.window()
        if padding[0] > taps[0] // 2 or padding[1] > taps[1] // 2:
            raise ShapeError(f"padding={self.padding} is more than half a window of {taps}")

    def window(self) -> tuple[Pair, Pair, Pair]:
        """Extents, steps and padding, vertically and horizontally."""
        stride = self.kernel_size if self.stride is None else self.stride
        return (
            pair("kernel_size", self.kernel_size, 1),
            pair("stride", stride, 1),
            pair("padding", self.padding, 0),
        )

    def output_shape(self, shape: Shape) -> Shape:
        """(channels, height, width), of windows that lie in the padded image as a whole."""
        check_images(shape)
        taps, stride, padding = self.window()
        windows = geometry((1, 1, *shape[1:]), (1, 1, *taps), stride, padding, (1, 1), 1)
        return (shape[0], *windows.result)


@dataclass(frozen=True)
class MaxPool2d(_Pool2d):
    """The greatest number of each window, ``torch.nn.MaxPool2d``; NaN if there is one.

    Parameters
    ----------
    kernel_size : int or (int, int)
        Height and width of the window.
    stride : int or (int, int), optional
        From one window to the next; the window's extents if left out.
    padding : int or (int, int)
        Rows and columns on each side that are never the greatest; at most half a window.

    Raises
    ------
    ShapeError, ValueError
        For arguments out of range.
    """


@dataclass(frozen=True)
class AvgPool2d(_Pool2d):
    """The mean of each window, ``torch.nn.AvgPool2d``.

    The parameters, and the errors, are those of `MaxPool2d`; rows and columns of padding are zeros
    that count.
    """


@dataclass(frozen=True)
class GlobalAvgPool2d(Layer):
    """The mean of each channel, ``torch.nn.AdaptiveAvgPool2d(1)``."""

    def output_shape(self, shape: Shape) -> Shape:
        """(channels, 1, 1)."""
        check_images(shape)
        return (shape[0], 1, 1)
