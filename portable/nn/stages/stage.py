"""What a layer does on a device, for samples of one shape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType, dtype
from portable.gradients import Tape
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.namespace import device_of
from portable.nn.activations import Activation
from portable.nn.layers.layer import Flow, Layer, Shape
from portable.primitives import copy, fill


@dataclass(frozen=True, slots=True)
class Place:
    """Where a layer stands in a network.

    Attributes
    ----------
    device : Device
    kind : DType
        Of parameters and of what flows between layers.
    index : int
        Of the layer among all.
    inputs, outputs : tuple of int
        Shapes of a sample before and after it.
    parameters : tuple of array
        Weights and biases, as far as it has them.
    buffers : tuple of array
        What training estimates beside them.
    activation : Activation or None
        What is applied to its results, if that is done by the same launch.
    """

    device: Device
    kind: DType
    index: int
    inputs: Shape
    outputs: Shape
    parameters: tuple[Any, ...]
    buffers: tuple[Any, ...]
    activation: Activation | None

    @property
    def weight(self) -> Any:
        """The weights."""
        return self.parameters[0]

    @property
    def bias(self) -> Any:
        """The biases, or None."""
        return self.parameters[1] if len(self.parameters) > 1 else None


class Stage(ABC):
    """A layer at work, with the activation that follows it where one launch does both."""

    def __init__(self, at: Place) -> None:
        self.place = at

    def scratch(self, count: int) -> int:
        """Elements of memory that its passes of so many samples use beside their operands."""
        return 0

    @abstractmethod
    def forward(self, x: Any, y: Any, scratch: Any) -> None:
        """Makes `y` (n, *outputs) of `x` (n, *inputs).

        `scratch` is a vector of the type that is summed in, of `scratch` elements or more.
        """

    def train(self, x: Any, y: Any, scratch: Any) -> None:
        """The same in a training, which `backward` follows."""
        self.forward(x, y, scratch)

    @abstractmethod
    def backward(self, flow: Flow, gradients: tuple[Any, ...], scratch: Any) -> None:
        """Makes the gradients by the parameters, and the slopes ``flow.dx`` if they are needed."""


# Layers of a user's own, by their own methods.


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


# Softmax layers.


@kernel
def softmax(x: kl.Array, y: kl.Array) -> None:
    """Exponentials over their sum, along the middle dimension: a workgroup for each sum.

    Parameters
    ----------
    x, y : array, shape (n, channels, pixels)
    """
    pixel, image, channels = kl.group_id(0), kl.group_id(1), x.shape[1]
    kind = kl.accumulator(x.dtype)
    greatest = kl.cast(float("-inf"), kind)
    for i in kl.workgroup_range(channels):
        greatest = kl.maximum(greatest, kl.cast(x[image, i, pixel], kind))
    greatest = kl.workgroup_reduce(kl.maximum, greatest)
    total = kl.cast(0, kind)
    for i in kl.workgroup_range(channels):
        total += kl.exp(x[image, i, pixel] - greatest)
    total = kl.workgroup_reduce(kl.add, total)
    for i in kl.workgroup_range(channels):
        y[image, i, pixel] = kl.exp(x[image, i, pixel] - greatest) / total


@kernel
def softmax_back(y: kl.Array, dy: kl.Array, dx: kl.Array) -> None:
    """``y * (dy - sum(y * dy))``, along the middle dimension.

    Parameters
    ----------
    y, dy, dx : array, shape (n, channels, pixels)
    """
    pixel, image, channels = kl.group_id(0), kl.group_id(1), y.shape[1]
    total = kl.cast(0, kl.accumulator(y.dtype))
    for i in kl.workgroup_range(channels):
        total += dy[image, i, pixel] * y[image, i, pixel]
    total = kl.workgroup_reduce(kl.add, total)
    for i in kl.workgroup_range(channels):
        dx[image, i, pixel] = y[image, i, pixel] * (dy[image, i, pixel] - total)


_WORKGROUP: Final = 128


class SoftmaxStage(Stage):
    """Shares that add up to 1 over the first dimension of samples."""

    def forward(self, x: Any, y: Any, scratch: Any) -> None:
        """A workgroup for each sum."""
        x, y = self._images(x), self._images(y)
        softmax[groups(x.shape[2], x.shape[0]), (self._items(), 1)](x, y)

    def backward(self, flow: Flow, gradients: tuple[Any, ...], scratch: Any) -> None:
        """A workgroup for each sum."""
        if flow.dx is not None:
            y, dy, dx = (self._images(v) for v in (flow.y, flow.dy, flow.dx))
            softmax_back[groups(y.shape[2], y.shape[0]), (self._items(), 1)](y, dy, dx)

    def _items(self) -> int:
        can = self.place.device.capabilities
        return 1 if can.single_work_items else min(_WORKGROUP, can.max_workgroup)

    def _images(self, x: Any) -> Any:
        channels, *pixels = self.place.inputs
        return self.place.device.namespace().reshape(x, (x.shape[0], channels, prod(pixels)))
