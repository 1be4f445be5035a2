"""Where the loss of a batch and its slopes are worked out."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

import numpy as np

from portable.backend import Device
from portable.dtypes import DType
from portable.lang.launch.geometry import groups
from portable.nn import loss_kernels as kernels
from portable.nn.loss_kernels import Batch, Sums
from portable.nn.losses import AnyLoss, CrossEntropyLoss, Loss
from portable.nn.network import Network

_WORKGROUP: Final = 64
_MAX_GROUPS: Final = 1024
_ELEMENTS_PER_ITEM: Final = 16
_AT_ONCE: Final = 2**28
"""Bytes that one layer's results may come to when samples are only looked at."""


LossPass = Callable[[Batch], Sums]
"""Enqueues the loss of a batch and fills its slopes; gives the sums of the loss."""


class _Elementwise:
    """A function of each output's error."""

    def __init__(self, device: Device, loss: Loss, kind: DType) -> None:
        self._term = loss.term
        self._levels = device.from_numpy(np.array(loss.parameters, kind.register.numpy))
        self._partial = device.empty((_MAX_GROUPS,), kind.register)

    def __call__(self, batch: Batch) -> Sums:
        partial = self._partial[: group_count(prod(batch.predicted.shape))]
        kernels.loss_and_slopes[groups(partial.shape[0]), _WORKGROUP](
            batch, self._levels, partial, TERM=self._term, LEVELS=self._levels.shape[0]
        )
        return Sums(partial)


class _CrossEntropy:
    """A function of each row of outputs."""

    def __init__(self, device: Device, loss: CrossEntropyLoss, kind: DType) -> None:
        self._smoothing = float(loss.label_smoothing)
        self._lone = device.capabilities.single_work_items
        self._losses, self._hits = (device.empty((_MAX_GROUPS,), kind.register) for _ in range(2))

    def __call__(self, batch: Batch) -> Sums:
        count = min(int(batch.predicted.shape[0]), _MAX_GROUPS)
        sums = Sums(self._losses[:count], self._hits[:count])
        kernels.cross_entropy[groups(count), 1 if self._lone else _WORKGROUP](
            batch, self._smoothing, sums
        )
        return sums


def loss_pass(device: Device, loss: AnyLoss, kind: DType) -> LossPass:
    """What works out a loss for outputs of this type on this device.

    Parameters
    ----------
    device : Device
    loss : Loss or CrossEntropyLoss
    kind : DType
        Of the outputs.
    """
    if isinstance(loss, CrossEntropyLoss):
        return _CrossEntropy(device, loss, kind)
    return _Elementwise(device, loss, kind)


class MeanLoss:
    """The loss of a network's outputs, for samples that it is not trained on."""

    def __init__(self, model: Network, loss: AnyLoss) -> None:
        self._model = model
        self._loss = loss_pass(model.device, loss, model.dtype)

    def __call__(self, x: Any, y: Any) -> float:
        """The mean over samples `x` and targets `y` (n, targets)."""
        return self.sums(x, y)[0] / int(x.shape[0])

    def sums(self, x: Any, y: Any) -> tuple[float, float]:
        """The sum of the loss over samples, and how many classes were found."""
        size = self._model.largest_sample(tuple(x.shape[1:])) * self._model.dtype.itemsize
        step = max(1, _AT_ONCE // size)
        parts = [self._of(x[i : i + step], y[i : i + step]) for i in range(0, x.shape[0], step)]
        losses, hits = np.sum(np.reshape(parts, (-1, 2)), axis=0)
        return float(losses), float(hits)

    def _of(self, x: Any, y: Any) -> tuple[float, float]:
        device = self._model.device
        predicted = self._model.forward(x)
        if predicted.ndim != 2:
            predicted = device.namespace().reshape(predicted, (x.shape[0], -1))
        loss = self._loss(Batch(predicted, y, None, None, int(x.shape[0])))
        losses = device.to_numpy(loss.losses).astype(np.float64).sum()
        hits = 0.0 if loss.hits is None else device.to_numpy(loss.hits).astype(np.float64).sum()
        return float(losses), float(hits)


def group_count(elements: int) -> int:
    """How many workgroups go through so many elements."""
    wanted = -(-elements // (_WORKGROUP * _ELEMENTS_PER_ITEM))
    return max(1, min(_MAX_GROUPS, wanted))
