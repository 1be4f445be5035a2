"""Initial weights, drawn on the host so that every device starts from the same ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, Final

import numpy as np

from portable.nn.layers.layer import Chain, Layer, Residual
from portable.nn.layout import Layout, Part, layout_of


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
