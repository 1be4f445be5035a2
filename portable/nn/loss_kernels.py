"""Losses of a batch, and their slopes by the outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.kernel import kernel
from portable.nn.layered_kernels import SCALE


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
