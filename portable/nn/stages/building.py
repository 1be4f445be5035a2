"""Which stages a network's layers come to, for samples of one shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType
from portable.lang.kernel import kernel
from portable.nn.activations import ACTIVATIONS, Activation
from portable.nn.layers import unweighted
from portable.nn.layers.layer import Chain, Flow, Layer, Residual, Shape, output_shapes
from portable.nn.layers.weighted import BatchNorm1d, BatchNorm2d, Conv2d, LayerNorm, Linear
from portable.nn.stages import linear as kernels
from portable.nn.stages.convolution import ConvolutionStage, NormalizedConvolutionStage
from portable.nn.stages.linear import DropoutStage, LinearStage
from portable.nn.stages.normalization import BatchNormStage, LayerNormStage
from portable.nn.stages.passes import ForwardPass, Through
from portable.nn.stages.pooling import GlobalPoolStage, PoolStage
from portable.nn.stages.stage import OwnStage, Place, SoftmaxStage, Stage
from portable.primitives import copy

# Layers that are made of layers: chains, and residual blocks.

_WORKGROUP: Final = 64


@kernel
def add(x: kl.Array, y: kl.Array, out: kl.Array, *, FUNCTION: Any = None) -> None:
    """A function of the sum of two vectors."""
    i = kl.global_id(0)
    if i < out.shape[0]:
        kind = kl.accumulator(x.dtype)
        total = kl.cast(x[i], kind) + y[i]
        out[i] = total if FUNCTION is None else FUNCTION(total)


@kernel
def split_slopes(values: kl.Array, slopes: kl.Array, beside: kl.Array, *, SLOPE: Any) -> None:
    """Slopes before an activation, of those after it, in place and in a vector `beside` them."""
    i = kl.global_id(0)
    if i < slopes.shape[0]:
        slope = slopes[i]
        if SLOPE is not None:
            slope = slope * SLOPE(values[i])
            slopes[i] = slope
        beside[i] = slope


class ChainStage(Stage):
    """Stages one after the other.

    Parameters
    ----------
    place : Place
    stages : sequence of Stage
        Of none, samples stay what they are.
    """

    def __init__(self, at: Place, stages: Sequence[Stage]) -> None:
        super().__init__(at)
        self._stages = stages
        self._forward: ForwardPass | None = None
        self._through: Through | None = None

    def forward(self, x: Any, y: Any, scratch: Any) -> None:
        """One after the other."""
        at, count = self.place, int(x.shape[0])
        if not self._stages:
            copy(x, self._like(y, x))
            return
        if self._forward is None or self._forward.count != count:
            self._forward = ForwardPass(at.device, at.kind, self._stages, count)
        self._forward(x, y)

    def train(self, x: Any, y: Any, scratch: Any) -> None:
        """Likewise; what comes out of each is kept."""
        at, count = self.place, int(x.shape[0])
        if not self._stages:
            copy(x, self._like(y, x))
            return
        if self._through is None or self._through.batch < count:
            self._through = Through(at.device, at.kind, self._stages, count)
        self._through.forward(x, y)

    def backward(self, flow: Flow, gradients: tuple[Any, ...], scratch: Any) -> None:
        """The last first."""
        if self._through is None:
            if flow.dx is not None:
                copy(flow.dy, self._like(flow.dx, flow.dy))
            return
        self._through.backward(flow, gradients)

    def _like(self, x: Any, other: Any) -> Any:
        return self.place.device.namespace().reshape(x, tuple(other.shape))


class ResidualStage(Stage):
    """What stages make of samples, added to what the stages of a shortcut make of them.

    Parameters
    ----------
    place : Place
    body, shortcut : ChainStage
        `shortcut` is None where samples are added as they are.
    """

    def __init__(self, at: Place, body: ChainStage, shortcut: ChainStage | None) -> None:
        super().__init__(at)
        self._body = body
        self._shortcut = shortcut
        self._split = len(body.place.parameters)
        self._memory: dict[str, Any] = {}
        activation = at.activation
        self._function = None if activation is None else activation.function
        self._slope = None if activation is None else activation.slope

    def forward(self, x: Any, y: Any, scratch: Any) -> None:
        """Both ways, then their sum."""
        beside = x
        if self._shortcut is not None:
            beside = self._vector("beside", y.shape)
            self._shortcut.forward(x, beside, scratch)
        self._body.forward(x, y, scratch)
        self._add(beside, y, y, self._function)

    def train(self, x: Any, y: Any, scratch: Any) -> None:
        """Likewise; what comes out of each stage is kept."""
        beside, body = x, self._vector("body", y.shape)
        if self._shortcut is not None:
            beside = self._vector("beside", y.shape)
            self._shortcut.train(x, beside, scratch)
        self._body.train(x, body, scratch)
        self._add(beside, body, y, self._function)

    def backward(self, flow: Flow, gradients: tuple[Any, ...], scratch: Any) -> None:
        """Slopes go both ways, and come together where the samples went in."""
        # Each way may write over its slopes, so that the shortcut has a copy of its own.
        shape, count = flow.dy.shape, prod(flow.dy.shape)
        beside = self._vector("slopes", shape)
        vectors = [self._flat(v, count) for v in (flow.y, flow.dy, beside)]
        split_slopes[count, _WORKGROUP](*vectors, SLOPE=self._slope)
        body, shortcut = gradients[: self._split], gradients[self._split :]
        out = self._vector("body", shape)
        self._body.backward(Flow(flow.x, out, flow.dy, flow.dx), body, scratch)
        if self._shortcut is not None:
            out = self._vector("beside", shape)
            there = None if flow.dx is None else self._vector("back", flow.x.shape)
            self._shortcut.backward(Flow(flow.x, out, beside, there), shortcut, scratch)
            beside = there
        if flow.dx is not None:
            self._add(beside, flow.dx, flow.dx, None)

    def _add(self, x: Any, y: Any, out: Any, function: Any) -> None:
        count = prod(out.shape)
        vectors = [self._flat(v, count) for v in (x, y, out)]
        add[count, _WORKGROUP](*vectors, FUNCTION=function)

    def _flat(self, x: Any, count: int) -> Any:
        return self.place.device.namespace().reshape(x, (count,))

    def _vector(self, name: str, shape: Sequence[int]) -> Any:
        """Memory of its own, by name, in this shape."""
        count = prod(shape)
        held = self._memory.get(name)
        if held is None or held.shape[0] < count:
            held = self._memory[name] = self.place.device.empty((count,), self.place.kind)
        return self.place.device.namespace().reshape(held[:count], tuple(shape))


# -- building --------------------------------------------------------------------------------------


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
        return isinstance(layer, unweighted.Flatten) or (
            isinstance(layer, unweighted.Dropout) and not self.training
        )


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
    ((unweighted.MaxPool2d, unweighted.AvgPool2d), PoolStage),
    (unweighted.GlobalAvgPool2d, lambda place, layer: GlobalPoolStage(place)),
    ((BatchNorm1d, BatchNorm2d), BatchNormStage),
    (LayerNorm, LayerNormStage),
    (unweighted.Softmax, lambda place, layer: SoftmaxStage(place)),
    (unweighted.Dropout, DropoutStage),
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
