"""Layers that are made of layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from portable.errors import ShapeError
from portable.nn.layers.layer import Layer, Shape, output_shapes

_T = TypeVar("_T")


def gathered(layers: Sequence[Layer], ask: Callable[[Layer], dict[str, _T]]) -> dict[str, _T]:
    """What each of the layers says by name, under names that begin with the layer's number.

    Parameters
    ----------
    layers : sequence of Layer
    ask : callable
        Such as ``Layer.parameters``.
    """
    return {
        f"{i}.{name}": value for i, layer in enumerate(layers) for name, value in ask(layer).items()
    }


@dataclass(frozen=True, init=False, repr=False)
class Chain(Layer):
    """Layers one after the other as one layer: what `Sequential` makes of a nested `Sequential`.

    Parameters
    ----------
    *layers : Layer

    Raises
    ------
    TypeError
        For what is no layer.
    """

    layers: tuple[Layer, ...]

    def __init__(self, *layers: Layer) -> None:
        object.__setattr__(self, "layers", _checked(type(self).__name__, layers))

    def __repr__(self) -> str:
        return f"Chain({', '.join(map(repr, self.layers))})"

    def parameters(self) -> dict[str, Shape]:
        """Those of its layers, named ``0.weight`` and so on."""
        return gathered(self.layers, lambda layer: layer.parameters())

    def buffers(self) -> dict[str, Shape]:
        """Those of its layers."""
        return gathered(self.layers, lambda layer: layer.buffers())

    def starts(self) -> dict[str, float]:
        """Those of its layers."""
        return gathered(self.layers, lambda layer: layer.starts())

    def output_shape(self, shape: Shape) -> Shape:
        """That of its last layer."""
        return output_shapes(self.layers, shape)[-1] if self.layers else shape

    def bound(self, parameter: float, given: float) -> float:
        """From layer to layer."""
        for layer in self.layers:
            given = layer.bound(parameter, given)
        return given


@dataclass(frozen=True, init=False, repr=False)
class Residual(Layer):
    """``layers(x) + shortcut(x)``, the block that deep networks are made of.

    Parameters
    ----------
    *layers : Layer
        One after the other.
    shortcut : sequence of Layer
        What the samples go through beside them; none: they are added as they are.

    Raises
    ------
    TypeError
        For what is no layer.

    Notes
    -----
    K. He et al., "Deep residual learning for image recognition", CVPR 2016. An activation that
    follows is applied by the launch that adds.

    Examples
    --------
    >>> from portable.nn import BatchNorm2d, Conv2d, ReLU, Residual
    >>> block = Residual(
    ...     Conv2d(16, 32, 3, stride=2, padding=1, bias=False), BatchNorm2d(32), ReLU(),
    ...     Conv2d(32, 32, 3, padding=1, bias=False), BatchNorm2d(32),
    ...     shortcut=[Conv2d(16, 32, 1, stride=2, bias=False), BatchNorm2d(32)],
    ... )
    >>> block.output_shape((16, 8, 8))
    (32, 4, 4)
    >>> list(block.parameters())[-1]
    'shortcut.1.bias'
    """

    layers: tuple[Layer, ...]
    shortcut: tuple[Layer, ...]

    def __init__(self, *layers: Layer, shortcut: Sequence[Layer] = ()) -> None:
        object.__setattr__(self, "layers", _checked("Residual", layers))
        object.__setattr__(self, "shortcut", _checked("Residual(shortcut=)", shortcut))
        if not layers:
            raise ShapeError("Residual() has no layers; give at least one")

    def __repr__(self) -> str:
        beside = f", shortcut={list(self.shortcut)!r}" if self.shortcut else ""
        return f"Residual({', '.join(map(repr, self.layers))}{beside})"

    def parts(self) -> tuple[Chain, Chain]:
        """What is added: its layers and its shortcut, each as one layer."""
        return Chain(*self.layers), Chain(*self.shortcut)

    def _both(self, ask: Callable[[Layer], dict[str, _T]]) -> dict[str, _T]:
        body, shortcut = self.parts()
        beside = {f"shortcut.{name}": value for name, value in ask(shortcut).items()}
        return {**ask(body), **beside}

    def parameters(self) -> dict[str, Shape]:
        """Those of its layers, then those of the shortcut's, as ``shortcut.0.weight``."""
        return self._both(lambda layer: layer.parameters())

    def buffers(self) -> dict[str, Shape]:
        """Those of its layers, then those of the shortcut's."""
        return self._both(lambda layer: layer.buffers())

    def starts(self) -> dict[str, float]:
        """Those of its layers, then those of the shortcut's."""
        return self._both(lambda layer: layer.starts())

    def output_shape(self, shape: Shape) -> Shape:
        """That of its last layer, which is the shortcut's, too."""
        body, shortcut = (part.output_shape(shape) for part in self.parts())
        if body != shortcut:
            raise ShapeError(
                f"its layers make {body} of samples of {shape} and its shortcut {shortcut}; "
                "they are added up"
            )
        return body

    def bound(self, parameter: float, given: float) -> float:
        """The sum."""
        body, shortcut = self.parts()
        return body.bound(parameter, given) + shortcut.bound(parameter, given)


def _checked(where: str, layers: Sequence[Layer]) -> tuple[Layer, ...]:
    for i, layer in enumerate(layers):
        if not isinstance(layer, Layer):
            raise TypeError(f"{where}: layer {i} is {layer!r}, which is no layer")
    return tuple(layers)
