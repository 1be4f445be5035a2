"""Layers of a user's own, by their own methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portable.nn.layers.layer import Flow, Layer
from portable.nn.stages.stage import Place, Stage

__all__ = ["OwnStage"]


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
        """By the layer's own method."""
        named = dict(zip(self._names, gradients, strict=True))
        self._layer.backward(flow, self._state, named)
