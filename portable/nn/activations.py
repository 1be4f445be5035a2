"""What hidden layers apply to each number, and its slope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from portable import lang as kl
from portable.lang.function import Function, function
from portable.linalg.products.kernels import relu

__all__ = ["ACTIVATIONS", "Activation"]


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


@dataclass(frozen=True, slots=True)
class Activation:
    """An activation.

    Attributes
    ----------
    function : Function
        Of a number, or of each lane of a vector.
    slope : Function
        The derivative, as a function of the activation's value.
    """

    function: Function
    slope: Function


ACTIVATIONS: Final = {
    "relu": Activation(relu, relu_slope),
    "tanh": Activation(tanh, tanh_slope),
    "sigmoid": Activation(sigmoid, sigmoid_slope),
}
"""By name."""
