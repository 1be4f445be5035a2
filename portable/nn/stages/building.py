"""Which stages a network's layers come to, for samples of one shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final

from portable.backend import Device
from portable.dtypes import DType
from portable.nn.activations import ACTIVATIONS, Activation
from portable.nn.layers.layer import Chain, Flow, Layer, Residual, Shape, output_shapes
from portable.nn.layers.unweighted import (
    AvgPool2d,
    Dropout,
    Flatten,
    GlobalAvgPool2d,
    MaxPool2d,
    Softmax,
)
from portable.nn.layers.weighted import BatchNorm1d, BatchNorm2d, Conv2d, LayerNorm, Linear
from portable.nn.stages import linear as kernels
from portable.nn.stages.blocks import ChainStage, ResidualStage
from portable.nn.stages.convolution import ConvolutionStage, NormalizedConvolutionStage
from portable.nn.stages.linear import DropoutStage, LinearStage
from portable.nn.stages.normalization import BatchNormStage, LayerNormStage
from portable.nn.stages.pooling import GlobalPoolStage, PoolStage
from portable.nn.stages.stage import OwnStage, Place, SoftmaxStage, Stage

_WORKGROUP: Final = 64


class ActivationStage(Stage):
    """A function of each number."""

    def forward(self, x: Any, y: Any, scratch: Any) -> None:
        """A work-item for each number."""
        assert self.place.activation is not None
        kernels.apply[prod(y.shape), _WORKGROUP](
            self._matrix(x), self._matrix(y), None, FUNCTION=self.place.activation.function
        )

    def backward(self, flow: Flow, gradients: tuple[Any, ...], scratch: Any) -> None:
        """A work-item for each number."""
        assert self.place.activation is not None
        if flow.dx is not None:
            at = flow.y if self.place.activation.by_value else flow.x
            kernels.apply[prod(flow.y.shape), _WORKGROUP](
                self._matrix(at),
                self._matrix(flow.dx),
                self._matrix(flow.dy),
                FUNCTION=self.place.activation.slope,
            )

    def _matrix(self, x: Any) -> Any:
        if x.ndim == 2:
            return x
        return self.place.device.namespace().reshape(x, (x.shape[0], prod(x.shape[1:])))


@dataclass(frozen=True, slots=True)
class Build:
    """What stages are made for.

    Attributes
    ----------
    device : Device
    kind : DType
        Of samples and parameters.
    training : bool
        Whether they are gone back through.
    """

    device: Device
    kind: DType
    training: bool

    def applies(self, layer: Layer, activation: Activation) -> bool:
        """Whether a layer applies the activation that follows it.

        On the way back its slopes must then follow from its values, since nothing else is kept.
        """
        takes = isinstance(layer, _APPLYING)
        return takes and (activation.by_value or not self.training)

    def folds(self, layer: Layer, following: Layer) -> bool:
        """Whether a convolution takes the normalization that follows it into its weights."""
        return (
            not self.training and isinstance(layer, Conv2d) and isinstance(following, BatchNorm2d)
        )

    def skips(self, layer: Layer) -> bool:
        """Whether a layer leaves memory as it is."""
        return isinstance(layer, Flatten) or (isinstance(layer, Dropout) and not self.training)


_APPLYING: Final = (Linear, Conv2d, BatchNorm1d, BatchNorm2d, LayerNorm, Residual)


def stages_of(
    build: Build,
    layers: tuple[Layer, ...],
    parameters: Sequence[tuple[Any, ...]],
    buffers: Sequence[tuple[Any, ...]],
    shape: Shape,
) -> list[Stage]:
    """The stages in order; activations are left to the layer before them if that can apply them.

    Parameters
    ----------
    build : Build
    layers : tuple of Layer
    parameters, buffers : sequence of tuples of arrays
        Those of each layer.
    shape : tuple of int
        Of a sample.

    Raises
    ------
    ShapeError
        If a layer does not take what the one before gives.
    """
    shapes = [shape, *output_shapes(layers, shape)]
    stages: list[Stage] = []
    after = 0
    for i, layer in enumerate(layers):
        if i < after or build.skips(layer):
            continue
        spot = Place(
            build.device, build.kind, i, shapes[i], shapes[i + 1], parameters[i], buffers[i],
            _activation(layer),
        )  # fmt: skip
        following, norm = _next(build, layers, i), None
        if following is not None and build.folds(layer, layers[following]):
            norm = replace(
                spot, index=following, parameters=parameters[following], buffers=buffers[following]
            )
            following = _next(build, layers, following)
        after = i + 1 if norm is None else norm.index + 1
        activation = None if following is None else _activation(layers[following])
        if activation is not None and following is not None and build.applies(layer, activation):
            spot, after = replace(spot, activation=activation), following + 1
        stages.append(_stage(build, spot, layer, norm, layers))
    return stages


def _next(build: Build, layers: tuple[Layer, ...], i: int) -> int | None:
    """The layer after the i-th that does something."""
    return next((j for j in range(i + 1, len(layers)) if not build.skips(layers[j])), None)


def _activation(layer: Layer) -> Activation | None:
    return None if layer.activation is None else ACTIVATIONS[layer.activation]


_STAGES: Final[tuple[tuple[Any, Callable[[Place, Any], Stage]], ...]] = (
    (Linear, lambda place, layer: LinearStage(place)),
    (Conv2d, ConvolutionStage),
    ((MaxPool2d, AvgPool2d), PoolStage),
    (GlobalAvgPool2d, lambda place, layer: GlobalPoolStage(place)),
    ((BatchNorm1d, BatchNorm2d), BatchNormStage),
    (LayerNorm, LayerNormStage),
    (Softmax, lambda place, layer: SoftmaxStage(place)),
    (Dropout, DropoutStage),
)
"""What is made of each kind of layer; activations and what is made of layers stand apart."""


def _stage(
    build: Build, at: Place, layer: Layer, norm: Place | None, layers: Sequence[Layer]
) -> Stage:
    """The stage of a layer, with the normalization that it takes into its weights, if any."""
    if norm is not None:
        return _normalized(at, norm, layer, layers[norm.index])
    if layer.is_worked_out_by_itself():
        return OwnStage(at, layer)
    if isinstance(layer, Chain):
        return _chain(build, at, layer)
    if isinstance(layer, Residual):
        return _residual(build, at, layer)
    for kinds, make in _STAGES:
        if isinstance(layer, kinds):
            return make(at, layer)
    return ActivationStage(at)


def _normalized(at: Place, norm: Place, layer: Any, normalization: Any) -> Stage:
    return NormalizedConvolutionStage(at, layer, norm, normalization)


def _chain(build: Build, at: Place, chain: Chain) -> ChainStage:
    parameters = _shared_out(chain.layers, at.parameters, lambda layer: layer.parameters())
    buffers = _shared_out(chain.layers, at.buffers, lambda layer: layer.buffers())
    stages = stages_of(build, chain.layers, parameters, buffers, at.inputs)
    return ChainStage(replace(at, activation=None), stages)


def _residual(build: Build, at: Place, layer: Residual) -> ResidualStage:
    parts = layer.parts()
    parameters = _shared_out(parts, at.parameters, lambda part: part.parameters())
    buffers = _shared_out(parts, at.buffers, lambda part: part.buffers())
    body, shortcut = (
        _chain(build, replace(at, parameters=part_parameters, buffers=kept), part)
        for part, part_parameters, kept in zip(parts, parameters, buffers, strict=True)
    )
    return ResidualStage(at, body, shortcut if layer.shortcut else None)


def _shared_out(
    layers: Sequence[Layer], arrays: tuple[Any, ...], ask: Callable[[Layer], dict[str, Shape]]
) -> list[tuple[Any, ...]]:
    """Each layer's part of arrays that are those of all of them in order."""
    shared: list[tuple[Any, ...]] = []
    start = 0
    for layer in layers:
        end = start + len(ask(layer))
        shared.append(arrays[start:end])
        start = end
    return shared
