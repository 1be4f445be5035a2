"""Layers that are made of layers: chains, and residual blocks."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

from portable import lang as kl
from portable.lang.kernel import kernel
from portable.nn.layers.layer import Flow
from portable.nn.stages.passes import ForwardPass, Through
from portable.nn.stages.stage import Place, Stage
from portable.primitives import copy

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
