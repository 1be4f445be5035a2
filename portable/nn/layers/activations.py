"""Layers that are a function of each number, or of each sample's numbers."""

from __future__ import annotations

from dataclasses import dataclass

from portable.errors import ShapeError
from portable.nn.layers.layer import Layer, Shape


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
