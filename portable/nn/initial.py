"""Initial weights, drawn on the host so that every device starts from the same ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any, Final

import numpy as np

from portable.nn.layers import Layer
from portable.nn.layout import layout_of

__all__ = ["INITIAL", "initial_vector"]


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
    for layer, parts in zip(layers, layout.layers, strict=True):
        if parts:
            weight, limit = parts[0], INITIAL[init](*layer.fans())
            drawn = random.uniform(-limit, limit, weight.shape)
            vector[weight.start : weight.stop] = drawn.ravel()
    return vector
