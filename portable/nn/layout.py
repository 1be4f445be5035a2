"""Where the weights and biases of a network lie in the one vector that holds them all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import index
from typing import Any, Final

from portable.errors import ShapeError

__all__ = ["Layer", "Layout", "checked_sizes", "layout_of"]

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


def checked_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """The widths of a network, as integers.

    Raises
    ------
    ShapeError
        Unless they are two whole numbers from 1 or more.
    """
    try:
        found = tuple(map(index, sizes))
    except TypeError:
        found = ()
    if len(found) < 2 or min(found) < 1:
        raise ShapeError(
            f"sizes={sizes!r:.200}: give the widths of the input, the hidden layers and the "
            "output, each a whole number from 1"
        )
    return found


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
