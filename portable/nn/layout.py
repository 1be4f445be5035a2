"""Where the parameters of a network lie in the one vector that holds them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any, Final

import numpy as np

from portable import registry
from portable.backend import Device
from portable.nn.layers.layer import Layer, Shape

# Where a network computes: on its own device, whatever device is in use.

_AS_IT_IS: Final = nullcontext()
_SAMPLE: Final = np.empty(0, np.float32)


def computing_on(device: Device) -> AbstractContextManager[object]:
    """A block in which NumPy arrays are worked on by `device`, if that takes them.

    NumPy arrays belong to several devices, and kernels run on the one in use. Arrays of other
    libraries say themselves where they are.
    """
    if registry.device() is device or not _takes_numpy(device):
        return _AS_IT_IS
    return registry.use(device)


@cache
def _takes_numpy(device: Device) -> bool:
    return device.owns(_SAMPLE)


# Where the parameters of a network lie in the one vector that holds them all.

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
