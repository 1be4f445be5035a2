"""Where the parameters of a network lie in the one vector that holds them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from portable.nn.layers import Layer, Shape

_MULTIPLE: Final = 16
"""Every part starts at a multiple of so many elements, which suits the widest vector loads."""


@dataclass(frozen=True, slots=True)
class Part:
    """A parameter: its name as in ``torch.nn.Sequential``, its shape, and where it starts."""

    name: str
    shape: Shape
    start: int

    @property
    def stop(self) -> int:
        """Where it ends."""
        return self.start + prod(self.shape)


@dataclass(frozen=True, slots=True)
class Layout:
    """The parts of each layer in order, weights before biases, and the length of the vector.

    What lies between parts stays zero.
    """

    layers: tuple[tuple[Part, ...], ...]
    length: int

    def parts(self) -> Iterator[Part]:
        """Those of all layers in order."""
        for layer in self.layers:
            yield from layer

    def shapes(self) -> dict[str, Shape]:
        """The shape of each part by name."""
        return {part.name: part.shape for part in self.parts()}

    def views(self, xp: Any, vector: Any) -> list[tuple[Any, ...]]:
        """The parts of each layer as views of the vector, through its namespace."""
        return [
            tuple(xp.reshape(vector[part.start : part.stop], part.shape) for part in layer)
            for layer in self.layers
        ]


def layout_of(
    layers: Sequence[Layer],
    ask: Callable[[Layer], dict[str, Shape]] = lambda layer: layer.parameters(),
) -> Layout:
    """The layout of these layers' parameters, in order.

    Parameters
    ----------
    layers : sequence of Layer
    ask : callable
        From a layer to the shapes by name; its parameters' if left out.
    """
    by_layer: list[tuple[Part, ...]] = []
    end = 0
    for i, layer in enumerate(layers):
        parts: list[Part] = []
        for name, shape in ask(layer).items():
            parts.append(Part(f"{i}.{name}", shape, end))
            end += _padded(prod(shape))
        by_layer.append(tuple(parts))
    return Layout(tuple(by_layer), end)


def _padded(count: int) -> int:
    return -(-count // _MULTIPLE) * _MULTIPLE
