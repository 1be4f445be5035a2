"""What the kernels of small networks are told: constants of a network, arrays of a training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from portable.dtypes import DType
from portable.lang.function import Function
from portable.nn.activations import ACTIVATIONS
from portable.nn.losses import Loss

if TYPE_CHECKING:
    from portable.nn.mlp import MLP

__all__ = ["FusedLayer", "FusedLoss", "FusedNet", "Samples", "Trained"]


@dataclass(frozen=True, slots=True)
class FusedLayer:
    """A linear layer: its widths, and where its parameters start in the vector of all.

    Attributes
    ----------
    inputs, outputs : int
    weight : int
        Of the weights (outputs, inputs).
    bias : int
    """

    inputs: int
    outputs: int
    weight: int
    bias: int


@dataclass(frozen=True, slots=True)
class FusedNet:
    """A perceptron.

    Attributes
    ----------
    layers : tuple of FusedLayer
    length : int
        Parameters in all.
    units : int
        Inputs, hidden units and outputs in all.
    widest : (int, int)
        The most units of every second layer from the input on, and of those between them.
    activation, slope : Function
        Between the layers, and its derivative as a function of its value.
    kind : DType
        To compute in.
    """

    layers: tuple[FusedLayer, ...]
    length: int
    units: int
    widest: tuple[int, int]
    activation: Function
    slope: Function
    kind: DType

    @classmethod
    def of(cls, model: MLP) -> FusedNet:
        """That of a network."""
        layers = tuple(
            FusedLayer(weight.shape[1], weight.shape[0], weight.start, bias.start)
            for weight, bias in (parts for parts in model.layout.layers if parts)
        )
        sizes, activation = model.sizes, ACTIVATIONS[model.activation]
        widest = max(sizes[0::2]), max(sizes[1::2])
        made = activation.function, activation.slope, model.dtype.register
        return cls(layers, model.layout.length, sum(sizes), widest, *made)


@dataclass(frozen=True, slots=True)
class FusedLoss:
    """A loss, as a function of the error of each output.

    Attributes
    ----------
    term : Function
        ``term(error, level)`` returns the loss and its slope.
    targets : int
        Numbers that a sample is compared with.
    levels : int
        Outputs that are compared with the same target.
    """

    term: Function
    targets: int
    levels: int

    @classmethod
    def of(cls, loss: Loss, outputs: int) -> FusedLoss:
        """That of a loss of so many outputs."""
        return cls(loss.term, loss.targets(outputs), len(loss.parameters))


@dataclass(frozen=True, slots=True)
class Samples:
    """Arrays: inputs, targets, and for each epoch in which order they come."""

    x: Any
    y: Any
    order: Any


@dataclass(frozen=True, slots=True)
class Trained:
    """Arrays that training changes, and a row of numbers for each step of the optimizer.

    `rounded` gets the parameters in fewer bits, or is None.
    """

    parameters: Any
    rounded: Any
    state: Any
    numbers: Any
