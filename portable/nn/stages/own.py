"""Layers of a user's own, by their own methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from portable.dtypes import dtype
from portable.gradients import Tape
from portable.namespace import device_of
from portable.nn.layers.layer import Flow, Layer
from portable.nn.stages.stage import Place, Stage
from portable.primitives import copy, fill


class OwnStage(Stage):
    """Gives a layer's methods its arrays by name."""

    def __init__(self, at: Place, layer: Layer) -> None:
        super().__init__(at)
        self._layer = layer
        self._names = tuple(layer.parameters())
        self._state: Mapping[str, Any] = dict(
            zip(
                (*self._names, *layer.buffers()),
                (*at.parameters, *at.buffers),
                strict=True,
            )
        )

    def forward(self, x: Any, y: Any, scratch: Any) -> None:
        """By the layer's own method."""
        self._layer.forward(x, y, self._state)

    def backward(self, flow: Flow, gradients: tuple[Any, ...], scratch: Any) -> None:
        """By the layer's own method, or by a tape of what its `forward` does."""
        named = dict(zip(self._names, gradients, strict=True))
        if type(self._layer).backward is not Layer.backward:
            self._layer.backward(flow, self._state, named)
            return
        with Tape(check=False) as tape:
            y = _like(flow.y)
            self._layer.forward(flow.x, y, self._state)
        into = [(self._state[name], gradient) for name, gradient in named.items()]
        into += [] if flow.dx is None else [(flow.x, flow.dx)]
        slopes = tape.gradients_of(y, [x for x, _ in into], flow.dy)
        for gradient, (_, out) in zip(slopes, into, strict=True):
            if gradient is None:
                fill(out, 0)
            else:
                copy(gradient, out)


def _like(x: Any) -> Any:
    """An array of the same shape and dtype, not written yet."""
    return (
        np.empty_like(x)
        if isinstance(x, np.ndarray)
        else device_of(x).empty(x.shape, dtype(x.dtype))
    )
