"""Networks of layers: prediction and training, on every device and over groups of them.

`layers` describe what a network is asked for, `stages` do it on a device; `sequential` makes
networks of them, whose parameters lie in one vector (`network`, `layout`). `training` checks what
is given and begins, `run` goes through epochs: layer by layer (`layered`), or where networks are
small all steps in one kernel (`fused`). `team` is who trains together.
"""

from typing import TYPE_CHECKING, Any

from portable.absent_names import LAYERS, lacking
from portable.nn import schedules
from portable.nn.files import ModelFileError
from portable.nn.history import History
from portable.nn.layers.layer import Chain, Flow, Layer, Residual
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
from portable.nn.losses import CrossEntropyLoss, Loss, huber, mae, mse, quantile
from portable.nn.network import Network
from portable.nn.optimizers import SGD, Adam, AdamW
from portable.nn.sequential import MLP, Sequential
from portable.nn.training import fit

__all__ = [
    "GELU",
    "MLP",
    "SGD",
    "Adam",
    "AdamW",
    "AvgPool2d",
    "BatchNorm1d",
    "BatchNorm2d",
    "Chain",
    "Conv2d",
    "CrossEntropyLoss",
    "Dropout",
    "Flatten",
    "Flow",
    "GlobalAvgPool2d",
    "Hardsigmoid",
    "Hardswish",
    "History",
    "Layer",
    "LayerNorm",
    "Linear",
    "Loss",
    "MaxPool2d",
    "ModelFileError",
    "Network",
    "ReLU",
    "ReLU6",
    "Residual",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Tanh",
    "fit",
    "huber",
    "mae",
    "mse",
    "quantile",
    "schedules",
]

if not TYPE_CHECKING:  # checkers tell of names that are not there

    def __getattr__(name: str) -> Any:
        raise lacking(__name__, __all__, name, LAYERS)
