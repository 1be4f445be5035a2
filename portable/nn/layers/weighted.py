"""Layers with weights: linear ones and convolutions, and those that normalize."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import prod, sqrt
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


# Layers that give numbers a mean of 0 and a variance of 1, then a learnt scale and shift.


@dataclass(frozen=True)
class _BatchNorm(Layer):
    """Normalizes channels by the batch in training, by running means in predictions."""

    num_features: int
    eps: float = 1e-5
    momentum: float = 0.1
    affine: bool = True

    def __post_init__(self) -> None:
        check_counts(self, "num_features")
        check_flags(self, "affine")
        _check_eps(self, self.eps)
        if not 0 <= self.momentum <= 1:
            raise ValueError(
                f"{type(self).__name__}(momentum={self.momentum!r}): expected a share from 0 to 1"
            )

    def parameters(self) -> dict[str, Shape]:
        """Weights and biases, one for each channel."""
        features = (self.num_features,)
        return {"weight": features, "bias": features} if self.affine else {}

    def buffers(self) -> dict[str, Shape]:
        """Running means and variances of each channel."""
        return {"running_mean": (self.num_features,), "running_var": (self.num_features,)}

    def starts(self) -> dict[str, float]:
        """As PyTorch's."""
        return {"weight": 1.0, "running_mean": 0.0, "running_var": 1.0}

    def bound(self, parameter: float, given: float) -> float:
        """Nothing is divided by less than the square root of `eps`."""
        scale = parameter if self.affine else 1.0
        return max(1.0, scale * (2 * given / sqrt(self.eps) + 1))

    @abstractmethod
    def output_shape(self, shape: Shape) -> Shape:
        """The same."""

    def _check_features(self, shape: Shape) -> None:
        if shape[0] != self.num_features:
            raise ShapeError(
                f"it takes samples of {self.num_features} channels, not of {shape[0]}: {shape}"
            )


@dataclass(frozen=True)
class BatchNorm1d(_BatchNorm):
    """Batch normalization of vectors, ``torch.nn.BatchNorm1d``.

    The parameters, and the errors, are those of `BatchNorm2d`.
    """

    def output_shape(self, shape: Shape) -> Shape:
        """The same."""
        if len(shape) != 1:
            raise ShapeError(f"it takes vectors, not samples of {shape}")
        self._check_features(shape)
        return shape


@dataclass(frozen=True)
class BatchNorm2d(_BatchNorm):
    """Batch normalization of images (channels, height, width), ``torch.nn.BatchNorm2d``.

    Training normalizes each channel by the mean and the variance of a batch, of each member its
    own in a group; predictions by running means of these, which are part of the network's state.

    Parameters
    ----------
    num_features : int
        Channels.
    eps : float
        Is added to variances.
    momentum : float
        What share a batch has of the running means.
    affine : bool
        Whether channels then have a learnt scale and shift.

    Raises
    ------
    ShapeError, ValueError
        For arguments out of range.

    Notes
    -----
    S. Ioffe, C. Szegedy, "Batch normalization", ICML 2015.
    """

    def output_shape(self, shape: Shape) -> Shape:
        """The same."""
        check_images(shape)
        self._check_features(shape)
        return shape


@dataclass(frozen=True)
class LayerNorm(Layer):
    """Normalizes each sample over its last dimensions, ``torch.nn.LayerNorm``.

    Parameters
    ----------
    normalized_shape : int or tuple of int
        The last extents of samples.
    eps : float
        Is added to variances.
    elementwise_affine : bool
        Whether places then have a learnt scale and shift.

    Raises
    ------
    ShapeError, ValueError
        For arguments out of range.

    Notes
    -----
    J. L. Ba, J. R. Kiros, G. E. Hinton, "Layer normalization" (2016).
    """

    normalized_shape: int | Shape
    eps: float = 1e-5
    elementwise_affine: bool = True

    def __post_init__(self) -> None:
        check_flags(self, "elementwise_affine")
        _check_eps(self, self.eps)
        extents = self.extents()
        if not extents or min(extents) < 1:
            raise ShapeError(
                f"LayerNorm(normalized_shape={self.normalized_shape!r}): expected extents from 1"
            )

    def extents(self) -> Shape:
        """What is normalized, as a tuple."""
        given = self.normalized_shape
        return (given,) if isinstance(given, int) else tuple(given)

    def parameters(self) -> dict[str, Shape]:
        """Weights and biases, one for each place."""
        if not self.elementwise_affine:
            return {}
        return {"weight": self.extents(), "bias": self.extents()}

    def starts(self) -> dict[str, float]:
        """As PyTorch's."""
        return {"weight": 1.0}

    def bound(self, parameter: float, given: float) -> float:
        """No number is farther from the mean than by the root of the count."""
        scale = parameter if self.elementwise_affine else 1.0
        return max(1.0, scale * (sqrt(prod(self.extents())) + 1))

    def output_shape(self, shape: Shape) -> Shape:
        """The same."""
        extents = self.extents()
        if shape[-len(extents) :] != extents:
            raise ShapeError(f"it takes samples whose last extents are {extents}, not {shape}")
        return shape


def _check_eps(layer: Layer, eps: float) -> None:
    if not eps > 0:
        raise ValueError(f"{type(layer).__name__}(eps={eps!r}): expected a positive number")
