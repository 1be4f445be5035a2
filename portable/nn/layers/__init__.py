"""Layers of networks as descriptions: what they are asked for, without arrays or devices."""

from __future__ import annotations

from typing import Final

from portable.nn.layers.blocks import Chain, Residual
from portable.nn.layers.layer import Flow, Layer, Shape, output_shapes
from portable.nn.layers.unweighted import (
    GELU,
    AvgPool2d,
    Dropout,
    Flatten,
    GlobalAvgPool2d,
    Hardsigmoid,
    Hardswish,
    MaxPool2d,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Tanh,
)
from portable.nn.layers.weighted import BatchNorm1d, BatchNorm2d, Conv2d, LayerNorm, Linear

__all__ = [
    "GELU",
    "LAYERS",
    "AvgPool2d",
    "BatchNorm1d",
    "BatchNorm2d",
    "Chain",
    "Conv2d",
    "Dropout",
    "Flatten",
    "Flow",
    "GlobalAvgPool2d",
    "Hardsigmoid",
    "Hardswish",
    "Layer",
    "LayerNorm",
    "Linear",
    "MaxPool2d",
    "ReLU",
    "ReLU6",
    "Residual",
    "Shape",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Tanh",
    "output_shapes",
]

LAYERS: Final[dict[str, type[Layer]]] = {
    kind.__name__: kind
    for kind in (
        Linear,
        Conv2d,
        MaxPool2d,
        AvgPool2d,
        GlobalAvgPool2d,
        Flatten,
        ReLU,
        ReLU6,
        Tanh,
        Sigmoid,
        Hardsigmoid,
        SiLU,
        Hardswish,
        GELU,
        Softmax,
        BatchNorm1d,
        BatchNorm2d,
        LayerNorm,
        Dropout,
        Residual,
        Chain,
    )
}
"""All kinds of layers by name."""
