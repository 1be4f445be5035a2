"""Which stages a network's layers come to, for samples of one shape."""

from __future__ import annotations

from typing import Any

from portable.backend import Device
from portable.dtypes import DType
from portable.nn.activations import ACTIVATIONS, Activation
from portable.nn.layers import (
    AvgPool2d,
    Conv2d,
    Flatten,
    Layer,
    Linear,
    MaxPool2d,
    Shape,
    output_shapes,
)
from portable.nn.stages.activation import ActivationStage
from portable.nn.stages.convolution import ConvolutionStage
from portable.nn.stages.linear import LinearStage
from portable.nn.stages.pooling import PoolStage
from portable.nn.stages.stage import Place, Stage

__all__ = ["stages_of"]


def stages_of(
    device: Device,
    kind: DType,
    layers: tuple[Layer, ...],
    parameters: list[tuple[Any, ...]],
    shape: Shape,
) -> list[Stage]:
    """The stages in order; activations are left to the layer before them if that can apply them.

    Parameters
    ----------
    device : Device
    kind : DType
        Of samples and parameters.
    layers : tuple of Layer
    parameters : list of tuples of arrays
        Those of each layer.
    shape : tuple of int
        Of a sample.

    Raises
    ------
    ShapeError
        If a layer does not take what the one before gives.
    """
    shapes = [shape, *output_shapes(layers, shape)]
    found: list[Stage] = []
    for i, layer in enumerate(layers):
        own = _activation(layer)
        if isinstance(layer, Flatten) or (own is not None and i and _applies(layers[i - 1])):
            continue
        follows = _activation(layers[i + 1]) if _applies(layer) and i + 1 < len(layers) else None
        place = Place(device, kind, i, shapes[i], shapes[i + 1], parameters[i], own or follows)
        found.append(_stage(place, layer))
    return found


def _activation(layer: Layer) -> Activation | None:
    return None if layer.activation is None else ACTIVATIONS[layer.activation]


def _applies(layer: Layer) -> bool:
    """Whether a layer applies the activation that follows it."""
    return isinstance(layer, Linear | Conv2d)


def _stage(place: Place, layer: Layer) -> Stage:
    if isinstance(layer, Linear):
        return LinearStage(place)
    if isinstance(layer, Conv2d):
        return ConvolutionStage(place, layer)
    if isinstance(layer, MaxPool2d | AvgPool2d):
        return PoolStage(place, layer)
    return ActivationStage(place)
