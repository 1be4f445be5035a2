"""What a layer does on a device, for samples of one shape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from portable.backend import Device
from portable.dtypes import DType
from portable.nn.activations import Activation
from portable.nn.layers.layer import Flow, Shape


@dataclass(frozen=True, slots=True)
class Place:
    """Where a layer stands in a network.

    Attributes
    ----------
    device : Device
    kind : DType
        Of parameters and of what flows between layers.
    index : int
        Of the layer among all.
    inputs, outputs : tuple of int
        Shapes of a sample before and after it.
    parameters : tuple of array
        Weights and biases, as far as it has them.
    buffers : tuple of array
        What training estimates beside them.
    activation : Activation or None
        What is applied to its results, if that is done by the same launch.
    """

    device: Device
    kind: DType
    index: int
    inputs: Shape
    outputs: Shape
    parameters: tuple[Any, ...]
    buffers: tuple[Any, ...]
    activation: Activation | None

    @property
    def weight(self) -> Any:
        """The weights."""
        return self.parameters[0]

    @property
    def bias(self) -> Any:
        """The biases, or None."""
        return self.parameters[1] if len(self.parameters) > 1 else None


class Stage(ABC):
    """A layer at work, with the activation that follows it where one launch does both."""

    def __init__(self, at: Place) -> None:
        self.place = at

    def scratch(self, count: int) -> int:
        """Elements of memory that its passes of so many samples use beside their operands."""
        return 0

    @abstractmethod
    def forward(self, x: Any, y: Any, scratch: Any) -> None:
        """Makes `y` (n, *outputs) of `x` (n, *inputs).

        `scratch` is a vector of the type that is summed in, of `scratch` elements or more.
        """

    def train(self, x: Any, y: Any, scratch: Any) -> None:
        """The same in a training, which `backward` follows."""
        self.forward(x, y, scratch)

    @abstractmethod
    def backward(self, flow: Flow, gradients: tuple[Any, ...], scratch: Any) -> None:
        """Makes the gradients by the parameters, and the slopes ``flow.dx`` if they are needed."""
