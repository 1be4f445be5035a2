"""Initial weights, drawn on the host so that every device starts from the same ones."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any, Final

import numpy as np

from portable.nn.layout import Layout

__all__ = ["INITIAL", "initial_vector"]

_Draw = Callable[[np.random.Generator, int, int], np.ndarray[Any, Any]]


def _xavier(random: np.random.Generator, inputs: int, outputs: int) -> np.ndarray[Any, Any]:
    """Glorot and Bengio (AISTATS 2010), formula 16."""
    limit = sqrt(6 / (inputs + outputs))
    return random.uniform(-limit, limit, (outputs, inputs))


def _uniform(random: np.random.Generator, inputs: int, outputs: int) -> np.ndarray[Any, Any]:
    return random.uniform(-1, 1, (outputs, inputs))


INITIAL: Final[dict[str, _Draw]] = {"xavier": _xavier, "uniform": _uniform}
"""How weights are drawn, by name; biases start at zero."""


def initial_vector(layout: Layout, init: str, seed: int) -> np.ndarray[Any, Any]:
    """All parameters in double precision, by NumPy's Philox generator."""
    if seed < 0:
        raise ValueError(f"seed={seed}: expected a number from 0")
    random = np.random.Generator(np.random.Philox(seed))
    vector = np.zeros(layout.length)
    for layer in layout.layers:
        count = layer.inputs * layer.outputs
        drawn = INITIAL[init](random, layer.inputs, layer.outputs)
        vector[layer.weight : layer.weight + count] = drawn.ravel()
    return vector
