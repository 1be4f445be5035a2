"""Layers without weights: activations, pooling, flattening and dropout."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from portable.conv.geometry import Pair, geometry, pair
from portable.errors import ShapeError
from portable.nn.layers.layer import Layer, Shape, check_images

# Samples as vectors.


@dataclass(frozen=True)
class Flatten(Layer):
    """Samples as vectors, in C order; ``torch.nn.Flatten``."""

    def output_shape(self, shape: Shape) -> Shape:
        """A vector of all numbers of a sample."""
        return (prod(shape),)


# Layers that put pixels of images together.


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


# Layers that are a function of each number, or of each sample's numbers.


class _Activation(Layer):
    """A function of each number."""

    def output_shape(self, shape: Shape) -> Shape:
        """The same."""
        return shape


@dataclass(frozen=True)
class ReLU(_Activation):
    """``max(x, 0)``; ``torch.nn.ReLU``."""

    activation = "relu"


@dataclass(frozen=True)
class Tanh(_Activation):
    """The hyperbolic tangent; ``torch.nn.Tanh``."""

    activation = "tanh"


@dataclass(frozen=True)
class Sigmoid(_Activation):
    """``1 / (1 + exp(-x))``; ``torch.nn.Sigmoid``."""

    activation = "sigmoid"


@dataclass(frozen=True)
class ReLU6(_Activation):
    """``min(max(x, 0), 6)``; ``torch.nn.ReLU6``."""

    activation = "relu6"


@dataclass(frozen=True)
class Hardsigmoid(_Activation):
    """``min(max(x + 3, 0), 6) / 6``; ``torch.nn.Hardsigmoid``."""

    activation = "hardsigmoid"


@dataclass(frozen=True)
class Hardswish(_Activation):
    """``x * min(max(x + 3, 0), 6) / 6``; ``torch.nn.Hardswish``."""

    activation = "hardswish"


@dataclass(frozen=True)
class SiLU(_Activation):
    """``x / (1 + exp(-x))``; ``torch.nn.SiLU``."""

    activation = "silu"


@dataclass(frozen=True)
class GELU(_Activation):
    """``x`` times the normal distribution's share below ``x``; ``torch.nn.GELU()``."""

    activation = "gelu"


@dataclass(frozen=True)
class Softmax(Layer):
    """Shares that add up to 1 over the first dimension of samples; ``torch.nn.Softmax(dim=1)``.

    Cross-entropy takes what comes before it (`CrossEntropyLoss`): train without this layer.
    """

    def output_shape(self, shape: Shape) -> Shape:
        """The same."""
        if not shape:
            raise ShapeError("it takes vectors or images, not single numbers")
        return shape


# Layers that training alone makes something of.


@dataclass(frozen=True)
class Dropout(Layer):
    """Leaves out numbers at random while it is trained, ``torch.nn.Dropout``.

    What stays is divided by ``1 - p``; predictions leave samples as they are. Which numbers are
    left out is the same on all devices (Philox, by the number of the step).

    Parameters
    ----------
    p : float
        The share that is left out, from 0 to below 1.
    seed : int
        Of the generator; two layers with the same leave out the same places.

    Raises
    ------
    ValueError
        For other shares.

    Notes
    -----
    N. Srivastava et al., "Dropout", JMLR 15 (2014).
    """

    p: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.p < 1:
            raise ValueError(f"Dropout(p={self.p!r}): expected a number from 0 to below 1")
        if self.seed < 0:
            raise ValueError(f"Dropout(seed={self.seed!r}): expected a whole number from 0")

    def output_shape(self, shape: Shape) -> Shape:
        """The same."""
        return shape

    def bound(self, parameter: float, given: float) -> float:
        """What stays becomes larger."""
        return max(1.0, given / (1 - self.p))
