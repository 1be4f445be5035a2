"""Where the weights and biases of a network lie in the one vector that holds them all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

__all__ = ["Layer", "Layout", "layout_of"]

_MULTIPLE: Final = 16
"""Every part starts at a multiple of so many elements, which suits the widest vector loads."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: its widths, and where its weights (outputs, inputs) and biases start."""

    inputs: int
    outputs: int
    weight: int
    bias: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The layers in order, and the length of the vector; what lies between parts stays zero."""

    layers: tuple[Layer, ...]
    length: int

    def parts(self) -> Iterator[tuple[str, int, tuple[int, ...]]]:
        """Name as in ``torch.nn.Sequential``, start and shape of each part."""
        for i, layer in enumerate(self.layers):
            # Every second module of the Sequential is an activation.
            yield f"{2 * i}.weight", layer.weight, (layer.outputs, layer.inputs)
            yield f"{2 * i}.bias", layer.bias, (layer.outputs,)

    def views(self, xp: Any, vector: Any) -> list[tuple[Any, Any]]:
        """Weights and biases of each layer as views of the vector, through its namespace."""
        return [
            (
                xp.reshape(
                    vector[layer.weight : layer.weight + layer.inputs * layer.outputs],
                    (layer.outputs, layer.inputs),
                ),
                vector[layer.bias : layer.bias + layer.outputs],
            )
            for layer in self.layers
        ]


def layout_of(sizes: Sequence[int]) -> Layout:
    """The layout for layers of these widths, the input's first."""
    layers: list[Layer] = []
    end = 0
    for inputs, outputs in pairwise(sizes):
        bias = end + _padded(inputs * outputs)
        layers.append(Layer(inputs, outputs, end, bias))
        end = bias + _padded(outputs)
    return Layout(tuple(layers), end)


def _padded(count: int) -> int:
    return -(-count // _MULTIPLE) * _MULTIPLE
