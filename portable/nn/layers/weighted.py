"""Layers whose outputs are weighted sums: linear ones and convolutions."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final, get_args

from portable.conv.geometry import Geometry, Pair, geometry, pair
from portable.conv.layouts import DTYPES
from portable.conv.settings import Algorithm
from portable.errors import ShapeError
from portable.nn.layers.layer import Layer, Shape, check_counts, check_flags, check_images

_ALGORITHMS: Final = tuple(a for a in get_args(Algorithm) if a != "vendor")


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
        check_counts(self, "in_features", "out_features")
        check_flags(self, "bias")

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
        check_counts(self, "in_channels", "out_channels", "groups")
        check_flags(self, "bias")
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
        check_images(shape)
        return (self.out_channels, *self.geometry(1, shape).result)
