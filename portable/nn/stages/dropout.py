"""Dropout layers, which training alone has."""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np

from portable import lang as kl
from portable.dtypes import uint32
from portable.lang.kernel import kernel
from portable.nn.layers import Dropout
from portable.nn.layers.layer import Flow
from portable.nn.stages.stage import Place, Stage

_WORKGROUP: Final = 64
_DRAWN: Final = 4
"""Numbers that the generator gives at a time."""


@kernel
def count_step(steps: kl.Array) -> None:
    """One more."""
    steps[0] = steps[0] + 1


@kernel
def drop(x: kl.Array, y: kl.Array, steps: kl.Array, seed: kl.Scalar, share: kl.Scalar) -> None:
    """Leaves out a share of a vector, the same in a step each time; the rest becomes larger.

    Parameters
    ----------
    x, y : array, shape (n,)
    steps : array of uint32, shape (1,)
        The step's number, a stream of the generator.
    seed : int
    share : float
        Of what is left out.
    """
    first = kl.global_id(0) * _DRAWN
    drawn = kl.random.uniform(seed, kl.global_id(0), steps[0])
    for j in kl.static_range(_DRAWN):
        i = first + j
        if i < x.shape[0]:
            value = x[i] / (1 - share)
            y[i] = kl.where(drawn[j] < share, value * 0, value)


class DropoutStage(Stage):
    """Leaves out numbers at random, and the slopes by them."""

    def __init__(self, at: Place, layer: Dropout) -> None:
        super().__init__(at)
        self._share = float(layer.p)
        self._seed = layer.seed
        self._steps: Any = None

    def forward(self, x: Any, y: Any, scratch: Any) -> None:
        """In a step of its own, other numbers than in the step before."""
        if self._steps is None:
            self._steps = self.place.device.from_numpy(np.zeros(1, uint32.numpy))
        count_step[1, 1](self._steps)
        self._drop(x, y)

    def backward(self, flow: Flow, gradients: tuple[Any, ...], scratch: Any) -> None:
        """The same places as on the way there."""
        if flow.dx is not None:
            self._drop(flow.dy, flow.dx)

    def _drop(self, x: Any, y: Any) -> None:
        count = prod(x.shape)
        reshape = self.place.device.namespace().reshape
        drop[-(-count // _DRAWN), _WORKGROUP](
            reshape(x, (count,)), reshape(y, (count,)), self._steps, self._seed, self._share
        )
