"""Layers of networks as descriptions: what they are asked for, without arrays or devices."""

from __future__ import annotations

from typing import Final

from portable.nn.layers import layer, unweighted, weighted
from portable.nn.layers.layer import Layer

LAYERS: Final[dict[str, type[Layer]]] = {
    name: kind
    for module in (weighted, unweighted, layer)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, Layer)
    if kind.__module__ == module.__name__ and kind is not Layer and not name.startswith("_")
}
"""All kinds of layers by name."""
