"""What every layer says of itself, and how a user's own layer is worked out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from operator import index
from typing import Any, ClassVar, TypeVar

from portable.dtypes import DType, bfloat16, float16, float32, float64
from portable.errors import ShapeError, UnsupportedError

Shape = tuple[int, ...]
"""Of one sample, or of a parameter."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Inputs and outputs of a layer for a batch, and the gradients of the loss by both.

    Attributes
    ----------
    x, y : array
        What went in and what came out.
    dy : array
        The slopes by `y`; may be written over.
    dx : array or None
        Where those by `x` go, if they are needed.
    """

    x: Any
    y: Any
    dy: Any
    dx: Any


class Layer(ABC):
    """The base class of layers.

    A layer of your own derives from this class, says its shapes, and has a method that launches
    kernels, `forward`; training goes back through it by a `portable.Tape`, or by a method
    `backward` of its own. Its parameters are then drawn, trained, kept and shared out as those of
    all other layers.

    Attributes
    ----------
    activation : str or None
        The name of the activation that it is, if it is one.
    dtypes : tuple of DType
        What it is worked out in.

    Examples
    --------
    >>> import numpy as np, portable as pt
    >>> from portable import lang as kl
    >>> from portable.nn import Layer, Linear, Sequential
    >>> @pt.kernel
    ... def scale(x, weight, y):
    ...     row, column = kl.global_id(1), kl.global_id(0)
    ...     y[row, column] = x[row, column] * weight[column]
    >>> class Scale(Layer):
    ...     def __init__(self, features):
    ...         self.features = features
    ...     def parameters(self):
    ...         return {"weight": (self.features,)}
    ...     def starts(self):
    ...         return {"weight": 2.0}
    ...     def output_shape(self, shape):
    ...         return shape
    ...     def forward(self, x, y, parameters):
    ...         scale[y.shape[::-1], None](x, parameters["weight"], y)
    >>> model = Sequential(Scale(3), device="cpu")
    >>> model(np.ones((1, 3), np.float32)).tolist()
    [[2.0, 2.0, 2.0]]
    """

    activation: ClassVar[str | None] = None
    dtypes: ClassVar[tuple[DType, ...]] = (float16, bfloat16, float32, float64)

    def parameters(self) -> dict[str, Shape]:
        """The parameters' shapes by name, weights first; as PyTorch's layer of this name."""
        return {}

    def buffers(self) -> dict[str, Shape]:
        """Shapes by name of what training estimates beside parameters, such as running means."""
        return {}

    def starts(self) -> dict[str, float]:
        """What parameters and buffers are at first, by name; others are drawn, biases are 0."""
        return {}

    def fans(self) -> tuple[int, int]:
        """Numbers that go into a result, and results that a number goes into."""
        return 1, 1

    @abstractmethod
    def output_shape(self, shape: Shape) -> Shape:
        """The shape of what comes out for a sample of this shape.

        Raises
        ------
        ShapeError
            If the layer does not take such samples.
        """

    def bound(self, parameter: float, given: float) -> float:
        """The largest magnitude that may come out, infinity where that is not known.

        Parameters
        ----------
        parameter, given : float
            The largest magnitude of the network's parameters, and of what goes in.
        """
        if self.is_worked_out_by_itself():
            return inf
        if not self.parameters():
            return max(1.0, given)
        return max(1.0, parameter * (self.fans()[0] * given + 1))

    # -- layers of one's own ----------------------------------------------------------------------

    def forward(self, x: Any, y: Any, parameters: Mapping[str, Any]) -> None:
        """Makes what comes out of what goes in, for layers of one's own; by launching kernels.

        Parameters
        ----------
        x : array, shape (n, *inputs)
            Must not be changed.
        y : array, shape (n, *outputs)
            Where the results go; none of it was written before.
        parameters : mapping of str to array
            Parameters and buffers by name.
        """
        raise UnsupportedError(f"{self!r} says nothing of how it is worked out")

    def backward(
        self, flow: Flow, parameters: Mapping[str, Any], gradients: Mapping[str, Any]
    ) -> None:
        """Makes gradients of a batch that went forward, for layers of one's own.

        Where a layer has none, its `forward` is run once more on a `portable.Tape`, which refuses
        by its line what has no gradient.

        Parameters
        ----------
        flow : Flow
            What went in and came out, the slopes by what came out, and where those by what went in
            are to be written, unless it is None.
        parameters : mapping of str to array
            As of `forward`.
        gradients : mapping of str to array
            Where the loss's gradient by each parameter is to be written; summed over the batch.
        """
        raise UnsupportedError(f"{self!r} leaves its gradients to a tape of its forward")

    def is_worked_out_by_itself(self) -> bool:
        """Whether it is a layer of one's own, with a `forward` of its own."""
        return type(self).forward is not Layer.forward


def output_shapes(layers: tuple[Layer, ...], shape: Shape) -> list[Shape]:
    """What comes out of each layer in turn for a sample of this shape.

    Raises
    ------
    ShapeError
        If a layer does not take what the one before gives; it is named.
    """
    shapes: list[Shape] = []
    start = shape
    for i, layer in enumerate(layers):
        try:
            shape = layer.output_shape(shape)
        except ShapeError as error:
            raise ShapeError(
                f"layer {i}, {layer!r}, is given samples of shape {shape} when the network's are "
                f"{start}: {error}"
            ) from None
        shapes.append(shape)
    return shapes


def check_counts(layer: Layer, *names: str) -> None:
    """Raises unless these fields are whole numbers from 1."""
    for name in names:
        value = getattr(layer, name)
        try:
            counts = not isinstance(value, bool) and index(value) >= 1
        except TypeError:
            counts = False
        if not counts:
            raise ShapeError(
                f"{type(layer).__name__}({name}={value!r}): expected a whole number from 1"
            )


def check_flags(layer: Layer, *names: str) -> None:
    """Raises unless these fields are True or False."""
    for name in names:
        value = getattr(layer, name)
        if not isinstance(value, bool):
            raise ValueError(f"{type(layer).__name__}({name}={value!r}): expected True or False")


def check_images(shape: Shape) -> None:
    """Raises unless samples of this shape are images."""
    if len(shape) != 3:
        raise ShapeError(f"it takes images (channels, height, width), not samples of {shape}")


# Layers that are made of layers.

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
