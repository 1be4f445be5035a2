"""Layers in plain NumPy and double precision, written for the tests alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from portable.nn import AvgPool2d, Conv2d, Flatten, Layer, Linear, MaxPool2d
from tests.conv.reference import Case, results
from tests.nn.numpy_network import ACTIVATIONS

Array = np.ndarray[Any, Any]
State = Mapping[str, Array]


def forward(layers: Sequence[Layer], state: State, x: Array) -> Array:
    """What comes out of the last layer, in double precision."""
    x = x.astype(float)
    for i, layer in enumerate(layers):
        own = [state[f"{i}.{name}"].astype(float) for name in layer.parameters()]
        x = _one(layer, own, x)
    return x


def _one(layer: Layer, own: list[Array], x: Array) -> Array:
    if isinstance(layer, Linear):
        return x @ own[0].T + sum(own[1:], np.zeros(()))
    if isinstance(layer, Conv2d):
        found = results(Case(x.shape, own[0].shape, *layer.window(), layer.groups), x, own[0])
        return found + sum((b[:, None, None] for b in own[1:]), np.zeros(()))
    if isinstance(layer, MaxPool2d):
        return _windows(layer, x, -np.inf).max((-1, -2))
    if isinstance(layer, AvgPool2d):
        return _windows(layer, x, 0).mean((-1, -2))
    if isinstance(layer, Flatten):
        return x.reshape(len(x), -1)
    assert layer.activation is not None
    return ACTIVATIONS[layer.activation][0](x)


def _windows(layer: MaxPool2d | AvgPool2d, x: Array, edge: float) -> Array:
    taps, stride, padding = layer.window()
    around = [(0, 0), (0, 0), *((p, p) for p in padding)]
    padded = np.pad(x, around, constant_values=edge)
    return sliding_window_view(padded, taps, (2, 3))[:, :, :: stride[0], :: stride[1]]


def cross_entropy(outputs: Array, classes: Array, smoothing: float = 0.0) -> float:
    logarithms = outputs - np.log(np.exp(outputs).sum(1, keepdims=True))
    own = logarithms[np.arange(len(classes)), classes]
    return float(-((1 - smoothing) * own + smoothing * logarithms.mean(1)).mean())
