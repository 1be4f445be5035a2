"""Samples as vectors."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from portable.nn.layers.layer import Layer, Shape


@dataclass(frozen=True)
class Flatten(Layer):
    """Samples as vectors, in C order; ``torch.nn.Flatten``."""

    def output_shape(self, shape: Shape) -> Shape:
        """A vector of all numbers of a sample."""
        return (prod(shape),)
