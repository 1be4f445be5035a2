"""Layers of networks as descriptions: what they are asked for, without arrays or devices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod
from operator import index
from typing import ClassVar, Final, get_args

from portable.conv.geometry import Geometry, Pair, geometry, pair
from portable.conv.layouts import DTYPES
from portable.conv.settings import Algorithm
from portable.dtypes import DType, bfloat16, float16, float32, float64
from portable.errors import ShapeError

__all__ = [
    "LAYERS",
    "AvgPool2d",
    "Conv2d",
    "Flatten",
    "Layer",
    "Linear",
    "MaxPool2d",
    "ReLU",
    "Shape",
    "Sigmoid",
    "Tanh",
    "output_shapes",
]

Shape = tuple[int, ...]
"""Of one sample, or of a parameter."""

_ALGORITHMS: Final = tuple(a for a in get_args(Algorithm) if a != "vendor")


class Layer(ABC):
    """What every layer says of itself.

    Networks work out the layers of this module, and classes derived from these; one that is derived
    from `Layer` alone says nothing of how it is worked out, and networks refuse it.

    Attributes
    ----------
    activation : str or None
        The name of the activation that it is, if it is one.
    dtypes : tuple of DType
        What it is worked out in.
    """

    activation: ClassVar[str | None] = None
    dtypes: ClassVar[tuple[DType, ...]] = (float16, bfloat16, float32, float64)

    def parameters(self) -> dict[str, Shape]:
        """The parameters' shapes by name, weights first; as PyTorch's layer of this name."""
        return {}

    def fans(self) -> tuple[int, int]:
        """Numbers that go into a result, and results that a number goes into."""
        return 1, 1

    @abstractmethod
    def output_shape(self, shape: Shape) -> Shape:
        """The shape of what comes out for a sample of this shape.

        Raises
        ------
        ShapeError
            If the layer does not take such samples.
        """


@dataclass(frozen=True)
class Linear(Layer):
    """Every output a weighted sum of all inputs, ``torch.nn.Linear``; samples are vectors.

    Parameters
    ----------
    in_features, out_features : int
        Numbers that go in and come out for each sample.
    bias : bool
        Whether a number of its own is added to each output.

    Raises
    ------
    ShapeError
        For counts below 1.
    """

    in_features: int
    out_features: int
    bias: bool = True

    def __post_init__(self) -> None:
        _check_counts(self, "in_features", "out_features")
        _check_bias(self, self.bias)

    def parameters(self) -> dict[str, Shape]:
        """Weights (outputs, inputs) and biases (outputs,)."""
        weight = {"weight": (self.out_features, self.in_features)}
        return {**weight, "bias": (self.out_features,)} if self.bias else dict(weight)

    def fans(self) -> tuple[int, int]:
        """Inputs and outputs."""
        return self.in_features, self.out_features

    def output_shape(self, shape: Shape) -> Shape:
        """A vector of the outputs."""
        if len(shape) != 1 and prod(shape) == self.in_features:
            raise ShapeError(f"it takes vectors; put Flatten() before it, samples are {shape}")
        if shape != (self.in_features,):
            raise ShapeError(f"it takes samples of {(self.in_features,)}, not of {shape}")
        return (self.out_features,)


@dataclass(frozen=True)
class Conv2d(Layer):
    """A convolution of images with learnt filters, ``torch.nn.Conv2d``.

    Samples are images (channels, height, width).

    Parameters
    ----------
    in_channels, out_channels : int
        Channels of the images, and how many filters there are.
    kernel_size : int or (int, int)
        Height and width of the filters.
    stride, padding, dilation : int or (int, int)
        As `portable.conv.conv2d` takes them.
    groups : int
        Parts of the channels, and as many of the filters, which see only each other.
    bias : bool
        Whether a number of its own is added to each filter's results.
    algorithm : str
        As `portable.conv.conv2d` takes it, without "vendor".

    Raises
    ------
    ShapeError, ValueError
        For arguments out of range, and groups that do not divide the channels.
    """

    in_channels: int
    out_channels: int
    kernel_size: int | Pair
    stride: int | Pair = 1
    padding: int | Pair = 0
    dilation: int | Pair = 1
    groups: int = 1
    bias: bool = True
    algorithm: Algorithm = "auto"

    dtypes = DTYPES

    def __post_init__(self) -> None:
        _check_counts(self, "in_channels", "out_channels", "groups")
        _check_bias(self, self.bias)
        for name, least in (("kernel_size", 1), ("stride", 1), ("padding", 0), ("dilation", 1)):
            pair(name, getattr(self, name), least)
        if self.in_channels % self.groups or self.out_channels % self.groups:
            raise ShapeError(f"groups={self.groups} does not divide the channels of {self!r}")
        if self.algorithm not in _ALGORITHMS:
            raise ValueError(f"algorithm={self.algorithm!r}; there are {', '.join(_ALGORITHMS)}")

    def parameters(self) -> dict[str, Shape]:
        """Filters (K, C / groups, R, S) and biases (K,)."""
        weight = {"weight": self._filters()}
        return {**weight, "bias": (self.out_channels,)} if self.bias else dict(weight)

    def _filters(self) -> Shape:
        size = pair("kernel_size", self.kernel_size, 1)
        return (self.out_channels, self.in_channels // self.groups, *size)

    def fans(self) -> tuple[int, int]:
        """Of one tap to the next: channels of a group times taps."""
        taps = prod(pair("kernel_size", self.kernel_size, 1))
        channels = self.in_channels // self.groups, self.out_channels // self.groups
        return channels[0] * taps, channels[1] * taps

    def window(self) -> tuple[Pair, Pair, Pair]:
        """Stride, padding and dilation, vertically and horizontally."""
        return (
            pair("stride", self.stride, 1),
            pair("padding", self.padding, 0),
            pair("dilation", self.dilation, 1),
        )

    def geometry(self, images: int, shape: Shape) -> Geometry:
        """The convolution of so many images."""
        return geometry((images, *shape), self._filters(), *self.window(), self.groups)

    def output_shape(self, shape: Shape) -> Shape:
        """(filters, height, width)."""
        _check_images(shape)
        return (self.out_channels, *self.geometry(1, shape).result)


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
        _check_images(shape)
        taps, stride, padding = self.window()
        found = geometry((1, 1, *shape[1:]), (1, 1, *taps), stride, padding, (1, 1), 1)
        return (shape[0], *found.result)


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
class Flatten(Layer):
    """Samples as vectors, in C order; ``torch.nn.Flatten``."""

    def output_shape(self, shape: Shape) -> Shape:
        """A vector of all numbers of a sample."""
        return (prod(shape),)


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


LAYERS: Final[dict[str, type[Layer]]] = {
    kind.__name__: kind
    for kind in (Linear, Conv2d, MaxPool2d, AvgPool2d, Flatten, ReLU, Tanh, Sigmoid)
}
"""All kinds of layers by name."""


def output_shapes(layers: tuple[Layer, ...], shape: Shape) -> list[Shape]:
    """What comes out of each layer in turn for a sample of this shape.

    Raises
    ------
    ShapeError
        If a layer does not take what the one before gives; it is named.
    """
    found: list[Shape] = []
    start = shape
    for i, layer in enumerate(layers):
        try:
            shape = layer.output_shape(shape)
        except ShapeError as error:
            raise ShapeError(
                f"layer {i}, {layer!r}, is given samples of shape {shape} when the network's are "
                f"{start}: {error}"
            ) from None
        found.append(shape)
    return found


def _check_counts(layer: Layer, *names: str) -> None:
    for name in names:
        value = getattr(layer, name)
        try:
            counts = not isinstance(value, bool) and index(value) >= 1
        except TypeError:
            counts = False
        if not counts:
            raise ShapeError(
                f"{type(layer).__name__}({name}={value!r}): expected a whole number from 1"
            )


def _check_bias(layer: Layer, bias: object) -> None:
    if not isinstance(bias, bool):
        raise ValueError(f"{type(layer).__name__}(bias={bias!r}): expected True or False")


def _check_images(shape: Shape) -> None:
    if len(shape) != 3:
        raise ShapeError(f"it takes images (channels, height, width), not samples of {shape}")
