"""Arguments of the kernels of small networks: constants of a network, arrays of a training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Protocol

from portable.backend import Device
from portable.dtypes import DType
from portable.lang.function import Function
from portable.nn.activations import BY_VALUE, Activation
from portable.nn.layout import Layout
from portable.nn.losses import Loss


class Perceptron(Protocol):
    """What kernels of small networks are made for; `portable.nn.MLP` is one."""

    @property
    def device(self) -> Device:
        """Where it lives."""

    @property
    def dtype(self) -> DType:
        """Of parameters and samples."""

    @property
    def layout(self) -> Layout:
        """Of its parameters."""

    @property
    def vector(self) -> Any:
        """The parameters."""

    @property
    def sizes(self) -> Sequence[int]:
        """Widths of the input and of every layer."""

    @property
    def activation(self) -> str:
        """Between the layers."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One way through a layer: rows of values, each times a weight, added up for each unit.

    Attributes
    ----------
    source, depth : int
        The first row that is added up, and how many there are.
    target, units : int
        The first row of the results, and how many there are.
    weight, unit_stride, row_stride : int
        The weight of the first unit and row, and how far apart those of units and of rows lie.
    bias : int or None
        The first of the biases that sums begin with; None for zero.
    activation : Function or None
        What is applied to a sum.
    slope : Function or None
        What a sum is multiplied by: a function of the value that it takes the place of.
    """

    source: int
    depth: int
    target: int
    units: int
    weight: int
    unit_stride: int
    row_stride: int
    bias: int | None = None
    activation: Function | None = None
    slope: Function | None = None


@dataclass(frozen=True, slots=True)
class FusedLayer:
    """A linear layer: its widths, where its values lie, and where its parameters do.

    Attributes
    ----------
    inputs, outputs : int
    source, target : int
        The first row of the values of its inputs and of its outputs.
    weight : int
        Where its weights (outputs, inputs) start in the vector of all parameters.
    bias : int
        Where its biases do.
    activation : Activation or None
        What follows it.
    below : Activation or None
        What its inputs come from.
    """

    inputs: int
    outputs: int
    source: int
    target: int
    weight: int
    bias: int
    activation: Activation | None
    below: Activation | None

    @property
    def forward(self) -> Pass:
        """Its outputs from its inputs."""
        function = None if self.activation is None else self.activation.function
        rows = self.source, self.inputs, self.target, self.outputs
        return Pass(*rows, self.weight, self.inputs, 1, self.bias, function)

    @property
    def backward(self) -> Pass:
        """The slopes of its inputs in the place of their values, from those of its outputs."""
        slope = None if self.below is None else self.below.slope
        rows = self.target, self.outputs, self.source, self.inputs
        return Pass(*rows, self.weight, 1, self.inputs, slope=slope)


@dataclass(frozen=True, slots=True)
class FusedNet:
    """A perceptron.

    Attributes
    ----------
    layers : tuple of FusedLayer
    length : int
        Parameters in all.
    rows : int
        Of values.
    kind : DType
        To compute in.
    """

    layers: tuple[FusedLayer, ...]
    length: int
    rows: int
    kind: DType

    @classmethod
    def forward(cls, model: Perceptron) -> FusedNet:
        """That of a forward pass: values of every second layer share their rows."""
        sizes = model.sizes
        even, odd = max(sizes[0::2]), max(sizes[1::2])
        return cls._of(model, [i % 2 * even for i in range(len(sizes))], even + odd)

    @classmethod
    def training(cls, model: Perceptron) -> FusedNet:
        """That of training, which keeps all values; the last row is for ones."""
        *places, rows = accumulate(model.sizes, initial=0)
        return cls._of(model, places, rows + 1)

    @classmethod
    def _of(cls, model: Perceptron, places: list[int], rows: int) -> FusedNet:
        """With the values of the input and of each layer from these rows on."""
        linear = [parts for parts in model.layout.layers if parts]
        between = [BY_VALUE[model.activation]] * (len(linear) - 1)
        result = zip(linear, pairwise(places), [*between, None], [None, *between], strict=True)
        layers = tuple(
            FusedLayer(
                weight.shape[1], weight.shape[0], *numbers, weight.start, bias.start, *activations
            )
            for (weight, bias), numbers, *activations in result
        )
        return cls(layers, model.layout.length, rows, model.dtype.register)


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
