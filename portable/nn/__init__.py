"""Networks of layers: prediction and training, on every device and over groups of them."""

from portable.nn import schedules
from portable.nn.files import ModelFileError
from portable.nn.history import History
from portable.nn.layers import (
    AvgPool2d,
    Conv2d,
    Flatten,
    Layer,
    Linear,
    MaxPool2d,
    ReLU,
    Sigmoid,
    Tanh,
)
from portable.nn.losses import CrossEntropyLoss, Loss, huber, mae, mse, quantile
from portable.nn.mlp import MLP
from portable.nn.network import Network
from portable.nn.optimizers import SGD, Adam, AdamW
from portable.nn.sequential import Sequential
from portable.nn.training import fit

__all__ = [
    "MLP",
    "SGD",
    "Adam",
    "AdamW",
    "AvgPool2d",
    "Conv2d",
    "CrossEntropyLoss",
    "Flatten",
    "History",
    "Layer",
    "Linear",
    "Loss",
    "MaxPool2d",
    "ModelFileError",
    "Network",
    "ReLU",
    "Sequential",
    "Sigmoid",
    "Tanh",
    "fit",
    "huber",
    "mae",
    "mse",
    "quantile",
    "schedules",
]
