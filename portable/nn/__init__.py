"""Multi-layer perceptrons: prediction and training, on every device."""

from portable.nn import schedules
from portable.nn.files import ModelFileError
from portable.nn.history import History
from portable.nn.losses import Loss, huber, mae, mse, quantile
from portable.nn.mlp import MLP
from portable.nn.optimizers import SGD, Adam, AdamW
from portable.nn.training import fit

__all__ = [
    "MLP",
    "SGD",
    "Adam",
    "AdamW",
    "History",
    "Loss",
    "ModelFileError",
    "fit",
    "huber",
    "mae",
    "mse",
    "quantile",
    "schedules",
]
