"""Where the parameters of a network lie in the one vector that holds them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from math import prod, sqrt
from typing import Any, Final

import numpy as np

from portable import registry
from portable.backend import Device
from portable.nn.layers.layer import Chain, Layer, Residual, Shape

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


# -- layout ----------------------------------------------------------------------------------------

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


# Initial weights, drawn on the host so that every device starts from the same ones.


def _xavier(inputs: int, outputs: int) -> float:
    """Glorot and Bengio (AISTATS 2010), formula 16."""
    return sqrt(6 / (inputs + outputs))


def _he(inputs: int, outputs: int) -> float:
    """He et al. (ICCV 2015), formula 10, which keeps the variance through rectifiers."""
    return sqrt(6 / inputs)


def _uniform(inputs: int, outputs: int) -> float:
    return 1.0


INITIAL: Final[dict[str, Callable[[int, int], float]]] = {
    "xavier": _xavier,
    "he": _he,
    "uniform": _uniform,
}
"""By name the limits between which weights are drawn, from numbers that go in and come out of a
weight's place; biases start at zero."""


def initial_vector(layers: Sequence[Layer], init: str, seed: int) -> np.ndarray[Any, Any]:
    """All parameters in double precision, by NumPy's Philox generator.

    Parameters
    ----------
    layers : sequence of Layer
    init : {"he", "xavier", "uniform"}
        How far weights reach.
    seed : int
        From 0.
    """
    if seed < 0:
        raise ValueError(f"seed={seed}: expected a number from 0")
    random = np.random.Generator(np.random.Philox(seed))
    layout = layout_of(layers)
    vector = np.zeros(layout.length)
    for i, (layer, parts) in enumerate(zip(layers, layout.layers, strict=True)):
        fill = _Filling(INITIAL[init], random, {f"{i}.{k}": v for k, v in layer.starts().items()})
        for part, (inputs, outputs) in zip(parts, _fans(layer), strict=True):
            vector[part.start : part.stop] = fill(part, inputs, outputs).ravel()
    return vector


def first_buffers(layers: Sequence[Layer], layout: Layout) -> np.ndarray[Any, Any]:
    """What buffers are at first, in double precision.

    Parameters
    ----------
    layers : sequence of Layer
    layout : Layout
        Of their buffers.
    """
    vector = np.zeros(layout.length)
    for i, (layer, parts) in enumerate(zip(layers, layout.layers, strict=True)):
        starts = {f"{i}.{name}": value for name, value in layer.starts().items()}
        for part in parts:
            vector[part.start : part.stop] = starts.get(part.name, 0.0)
    return vector


@dataclass(frozen=True, slots=True)
class _Filling:
    """What a layer's parameters are at first: what the layer says, zero for biases, or drawn."""

    limit: Callable[[int, int], float]
    random: np.random.Generator
    starts: dict[str, float]

    def __call__(self, part: Part, inputs: int, outputs: int) -> np.ndarray[Any, Any]:
        if part.name in self.starts or part.name.endswith(".bias"):
            return np.full(part.shape, self.starts.get(part.name, 0.0))
        limit = self.limit(inputs, outputs)
        return self.random.uniform(-limit, limit, part.shape)


def _fans(layer: Layer) -> list[tuple[int, int]]:
    """For each parameter of a layer, the fans of the layer that it belongs to."""
    if isinstance(layer, Chain):
        return [fans for inner in layer.layers for fans in _fans(inner)]
    if isinstance(layer, Residual):
        return [fans for part in layer.parts() for fans in _fans(part)]
    return [layer.fans() for _ in layer.parameters()]
