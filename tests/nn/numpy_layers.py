"""Layers in plain NumPy and double precision, written for the tests alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import softmax

from portable.nn import (
    AvgPool2d,
    BatchNorm1d,
    BatchNorm2d,
    Chain,
    Conv2d,
    Dropout,
    Flatten,
    GlobalAvgPool2d,
    Layer,
    LayerNorm,
    Linear,
    MaxPool2d,
    Residual,
    Softmax,
)
from tests.conv.reference import Case, results
from tests.nn.numpy_network import ACTIVATIONS

Array = np.ndarray[Any, Any]
State = Mapping[str, Array]


def forward(
    layers: Sequence[Layer], state: State, x: Array, *, training: bool = False, prefix: str = ""
) -> Array:
    """What comes out of the last layer, in double precision."""
    x = x.astype(float)
    for i, layer in enumerate(layers):
        name = f"{prefix}{i}."
        if isinstance(layer, Chain):
            x = forward(layer.layers, state, x, training=training, prefix=name)
        elif isinstance(layer, Residual):
            beside = forward(layer.shortcut, state, x, training=training, prefix=f"{name}shortcut.")
            x = forward(layer.layers, state, x, training=training, prefix=name) + beside
        elif isinstance(layer, BatchNorm1d | BatchNorm2d):
            x = _normalized(layer, state, name, x, training)
        else:
            own = [state[f"{name}{part}"].astype(float) for part in layer.parameters()]
            x = _one(layer, own, x)
    return x


def _normalized(
    layer: BatchNorm1d | BatchNorm2d, state: State, name: str, x: Array, training: bool
) -> Array:
    axes = (0, *range(2, x.ndim))
    along = (-1, *(1 for _ in x.shape[2:]))
    if training:
        mean, variance = x.mean(axes), x.var(axes)
    else:
        mean, variance = (state[f"{name}{v}"].astype(float) for v in layer.buffers())
    scaled = (x - mean.reshape(along)) / np.sqrt(variance.reshape(along) + layer.eps)
    if layer.affine:
        weight, bias = (state[f"{name}{v}"].astype(float) for v in ("weight", "bias"))
        scaled = scaled * weight.reshape(along) + bias.reshape(along)
    return scaled


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
    if isinstance(layer, Dropout):
        return x
    if isinstance(layer, GlobalAvgPool2d):
        return x.mean((2, 3), keepdims=True)
    if isinstance(layer, Softmax):
        return softmax(x, axis=1)
    if isinstance(layer, LayerNorm):
        axes = tuple(range(x.ndim - len(layer.extents()), x.ndim))
        middle = x - x.mean(axes, keepdims=True)
        scaled = middle / np.sqrt(x.var(axes, keepdims=True) + layer.eps)
        return scaled * own[0] + own[1] if own else scaled
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
