"""Losses of a batch, and their slopes by the outputs."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.kernel import kernel
from portable.nn.layered_kernels import SCALE

__all__ = ["cross_entropy", "loss_and_slopes"]


@kernel
def loss_and_slopes(
    predicted: Any,
    wanted: Any,
    levels: Any,
    control: Any,
    slopes: Any,
    partial: Any,
    rows: Any,
    *,
    TERM: Any,
    LEVELS: int,
) -> None:
    """The loss's slope for each output, and each workgroup's sum of the loss.

    `slopes` may be None. The loss is a mean over `rows` samples, of which those here may be a part.
    Each column of targets belongs to as many outputs as there are levels.

    Parameters
    ----------
    predicted, slopes : array, shape (n, columns)
    wanted : array, shape (n, columns / LEVELS)
    levels : array, shape (LEVELS,)
    control : array
        As of `portable.nn.layered_kernels`; it has the scale of slopes.
    partial : array, shape (workgroups,)
    rows : int
    TERM : Function
        ``TERM(error, level)`` returns the loss and its slope.
    LEVELS : int
    """
    kind = kl.accumulator(predicted.dtype)
    columns = predicted.shape[1]
    total = kl.cast(0, kind)
    scale = kl.cast(1, kind) / kl.cast(rows * columns, kind)
    if slopes is not None:
        scale = scale * control[SCALE]
    for i in range(kl.global_id(0), predicted.shape[0] * columns, kl.global_size(0)):
        row, column = i // columns, i % columns
        error = predicted[row, column] - wanted[row, column // LEVELS]
        loss, slope = TERM(error, levels[column % LEVELS])
        total += loss
        if slopes is not None:
            slopes[row, column] = slope * scale
    total = kl.workgroup_reduce(kl.add, total)
    if kl.local_id(0) == 0:
        partial[kl.group_id(0)] = total / kl.cast(columns, kind)


@kernel
def cross_entropy(
    predicted: Any,
    classes: Any,
    smoothing: Any,
    control: Any,
    slopes: Any,
    partial: Any,
    hits: Any,
    rows: Any,
) -> None:
    """The same for ``log(sum(exp(outputs))) - outputs[class]``; a workgroup takes rows in turn.

    `hits` gets each workgroup's count of rows whose first greatest output is that of their class.

    Parameters
    ----------
    predicted, slopes : array, shape (n, classes)
    classes : array of int, shape (n, 1)
    smoothing : float
        What all classes share of a row's target.
    control, rows
        As of `loss_and_slopes`.
    partial, hits : array, shape (workgroups,)
    """
    kind = kl.accumulator(predicted.dtype)
    columns = predicted.shape[1]
    losses, found = kl.cast(0, kind), kl.cast(0, kind)
    part = smoothing / kl.cast(columns, kind)
    scale = kl.cast(1, kind) / kl.cast(rows, kind)
    if slopes is not None:
        scale = scale * control[SCALE]
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
        wanted = classes[row, 0]
        own = kl.cast(predicted[row, wanted], kind) - most
        losses += kl.log(total) - (1 - smoothing) * own - part * below
        found += kl.where(first == wanted, kl.cast(1, kind), kl.cast(0, kind))
        if slopes is not None:
            for column in kl.workgroup_range(columns):
                share = kl.exp(kl.cast(predicted[row, column], kind) - most) / total
                target = part + kl.where(column == wanted, 1 - smoothing, smoothing * 0)
                slopes[row, column] = (share - target) * scale
    if kl.local_id(0) == 0:
        partial[kl.group_id(0)] = losses
        hits[kl.group_id(0)] = found
