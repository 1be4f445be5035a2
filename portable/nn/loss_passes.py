"""Losses of a batch and their slopes by the outputs: the kernels, and where they are launched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.nn.layered_kernels import SCALE
from portable.nn.losses import AnyLoss, CrossEntropyLoss, Loss
from portable.nn.network import Network


@dataclass(frozen=True, slots=True)
class Batch:
    """Outputs for some samples, and what they are held against.

    Attributes
    ----------
    predicted : array, shape (n, outputs)
    wanted : array, shape (n, targets)
        Numbers, or one class for each sample.
    slopes : array, shape (n, outputs), or None
        What gets the loss's slope for each output.
    control : array or None
        As of `portable.nn.layered_kernels`; it has the scale of slopes.
    rows : int
        Samples that the loss is a mean over, of which those here may be a part.
    """

    predicted: Any
    wanted: Any
    slopes: Any
    control: Any
    rows: Any

    def scale(self, terms: kl.Scalar) -> Any:
        """What slopes are multiplied by where the loss is a mean over so many terms."""
        kind = kl.accumulator(self.predicted.dtype)
        scale = kl.cast(1, kind) / kl.cast(terms, kind)
        return scale if self.slopes is None else scale * self.control[SCALE]


@dataclass(frozen=True, slots=True)
class Sums:
    """Vectors whose sums are the loss over the samples, and the samples whose class was found.

    The second is None where there are no classes.
    """

    losses: Any
    hits: Any = None


@kernel
def loss_and_slopes(
    batch: Batch, levels: kl.Array, partial: kl.Array, *, TERM: Any, LEVELS: int
) -> None:
    """The loss's slope for each output, and each workgroup's sum of the loss.

    Each column of targets belongs to as many outputs as there are levels.

    Parameters
    ----------
    batch : Batch
    levels : array, shape (LEVELS,)
    partial : array, shape (workgroups,)
    TERM : Function
        ``TERM(error, level)`` returns the loss and its slope.
    LEVELS : int
    """
    predicted, slopes = batch.predicted, batch.slopes
    kind = kl.accumulator(predicted.dtype)
    columns = predicted.shape[1]
    total = kl.cast(0, kind)
    scale = batch.scale(batch.rows * columns)
    for i in range(kl.global_id(0), predicted.shape[0] * columns, kl.global_size(0)):
        row, column = i // columns, i % columns
        error = predicted[row, column] - batch.wanted[row, column // LEVELS]
        loss, slope = TERM(error, levels[column % LEVELS])
        total += loss
        if slopes is not None:
            slopes[row, column] = slope * scale
    total = kl.workgroup_reduce(kl.add, total)
    if kl.local_id(0) == 0:
        partial[kl.group_id(0)] = total / kl.cast(columns, kind)


@kernel
def cross_entropy(batch: Batch, smoothing: kl.Scalar, sums: Sums) -> None:
    """The same for ``log(sum(exp(outputs))) - outputs[class]``; a workgroup takes rows in turn.

    A row whose first greatest output is that of its class counts as found.

    Parameters
    ----------
    batch : Batch
    smoothing : float
        What all classes share of a row's target.
    sums : Sums
        Of arrays (workgroups,).
    """
    predicted, slopes = batch.predicted, batch.slopes
    kind = kl.accumulator(predicted.dtype)
    columns = predicted.shape[1]
    losses, hits = kl.cast(0, kind), kl.cast(0, kind)
    part = smoothing / kl.cast(columns, kind)
    scale = batch.scale(batch.rows)
    for row in range(kl.group_id(0), predicted.shape[0], kl.num_groups(0)):
        most = kl.cast(float("-inf"), kind)
        for column in kl.workgroup_range(columns):
            most = kl.maximum(most, kl.cast(predicted[row, column], kind))
        most = kl.workgroup_reduce(kl.maximum, most)
        total, below, first = kl.cast(0, kind), kl.cast(0, kind), columns
        for column in kl.workgroup_range(columns):
            distance = kl.cast(predicted[row, column], kind) - most
            total += kl.exp(distance)
            below += distance
            if distance == 0:
                first = kl.minimum(first, column)
        total = kl.workgroup_reduce(kl.add, total)
        below = kl.workgroup_reduce(kl.add, below)
        first = kl.workgroup_reduce(kl.minimum, first)
        wanted = batch.wanted[row, 0]
        logarithm = kl.cast(predicted[row, wanted], kind) - most
        losses += kl.log(total) - (1 - smoothing) * logarithm - part * below
        hits += kl.where(first == wanted, kl.cast(1, kind), kl.cast(0, kind))
        if slopes is not None:
            for column in kl.workgroup_range(columns):
                share = kl.exp(kl.cast(predicted[row, column], kind) - most) / total
                target = part + kl.where(column == wanted, 1 - smoothing, smoothing * 0)
                slopes[row, column] = (share - target) * scale
    if kl.local_id(0) == 0:
        sums.losses[kl.group_id(0)] = losses
        sums.hits[kl.group_id(0)] = hits


# -- passes ----------------------------------------------------------------------------------------

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
        loss_and_slopes[groups(partial.shape[0]), _WORKGROUP](
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
        cross_entropy[groups(count), 1 if self._lone else _WORKGROUP](batch, self._smoothing, sums)
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
