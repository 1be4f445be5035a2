"""What hidden layers apply to each number, and its slope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from portable import lang as kl
from portable.lang.function import Function, function
from portable.linalg.products.kernels import relu
from portable.nn.normal_distribution import density, share_below

__all__ = ["ACTIVATIONS", "BY_VALUE", "Activation"]


@function
def relu_slope(y: Any) -> Any:
    """1 where `y` is positive, else 0."""
    return kl.where(y > 0, y * 0 + 1, y * 0)


@function
def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    return kl.tanh(x)


@function
def tanh_slope(y: Any) -> Any:
    """Its slope where its value is `y`."""
    return 1 - y * y


@function
def sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(-x))``."""
    return 1 / (1 + kl.exp(-x))


@function
def sigmoid_slope(y: Any) -> Any:
    """Its slope where its value is `y`."""
    return y * (1 - y)


@function
def relu6(x: Any) -> Any:
    """``min(max(x, 0), 6)``; NaN stays."""
    return kl.where(x < 0, x * 0, kl.where(x > 6, x * 0 + 6, x))


@function
def relu6_slope(y: Any) -> Any:
    """1 where `y` is between the ends, else 0."""
    return kl.where((y > 0) & (y < 6), y * 0 + 1, y * 0)


@function
def hardsigmoid(x: Any) -> Any:
    """``relu6(x + 3) / 6``."""
    return relu6(x + 3) / 6


@function
def hardsigmoid_slope(y: Any) -> Any:
    """A sixth where `y` is between 0 and 1, else 0."""
    return relu6_slope(y * 6) / 6


@function
def hardswish(x: Any) -> Any:
    """``x * relu6(x + 3) / 6``."""
    return x * hardsigmoid(x)


@function
def hardswish_slope(x: Any) -> Any:
    """Its slope at `x`."""
    inside = (x > -3) & (x < 3)
    return kl.where(inside, x / 3 + 0.5, kl.where(x < 0, x * 0, x * 0 + 1))


@function
def silu(x: Any) -> Any:
    """``x / (1 + exp(-x))``."""
    return x * sigmoid(x)


@function
def silu_slope(x: Any) -> Any:
    """Its slope at `x`."""
    share = sigmoid(x)
    return share * (1 + x * (1 - share))


@function
def gelu(x: Any) -> Any:
    """``x`` times the normal distribution's share below it."""
    return x * share_below(x)


@function
def gelu_slope(x: Any) -> Any:
    """Its slope at `x`."""
    return share_below(x) + x * density(x)


@dataclass(frozen=True, slots=True)
class Activation:
    """An activation.

    Attributes
    ----------
    function : Function
        Of a number, or of each lane of a vector.
    slope : Function
        The derivative, as a function of the activation's value, or of what it is given.
    by_value : bool
        Whether of its value, so that what went in need not be kept.
    """

    function: Function
    slope: Function
    by_value: bool = True


BY_VALUE: Final = {
    "relu": Activation(relu, relu_slope),
    "tanh": Activation(tanh, tanh_slope),
    "sigmoid": Activation(sigmoid, sigmoid_slope),
    "relu6": Activation(relu6, relu6_slope),
    "hardsigmoid": Activation(hardsigmoid, hardsigmoid_slope),
}
"""By name, those whose slopes follow from their values."""

ACTIVATIONS: Final = {
    **BY_VALUE,
    "hardswish": Activation(hardswish, hardswish_slope, by_value=False),
    "silu": Activation(silu, silu_slope, by_value=False),
    "gelu": Activation(gelu, gelu_slope, by_value=False),
}
"""All by name."""
