"""What training layer by layer needs beside matrix products.

`control` holds a few numbers that steps hand on without the host: see the constants.
"""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = [
    "FACTOR",
    "GOOD",
    "SCALE",
    "column_totals",
    "copy_vector",
    "finish_step",
    "loss_and_slopes",
    "slopes_back",
    "squares",
    "take_rows",
    "update",
]

FACTOR: Final = 0
"""What gradients are multiplied by in this step; negative if the step is left out."""
SCALE: Final = 1
"""What the loss is scaled by, so that small gradients survive half precision."""
GOOD: Final = 2
"""Steps since the scale last changed."""

_GROWTH_INTERVAL: Final = 2000
_LARGEST_SCALE: Final = 2.0**24


@kernel
def take_rows(x: Any, order: Any, first: Any, out: Any) -> None:
    """The rows of `x` that come in `order` from `first` on; all in turn if there is no order."""
    column, row = kl.global_id(0), kl.global_id(1)
    if row < out.shape[0] and column < out.shape[1]:
        source = first + row
        if order is not None:
            source = order[source]
        out[row, column] = x[source, column]


@function
def sum_of_workgroup(value: Any, SIZE: int) -> Any:
    """The sum over the workgroup, for its first work-item."""
    held = kl.local(SIZE, value.dtype)
    own = kl.local_linear_id()
    held[own] = value
    kl.barrier()
    total = kl.cast(0, value.dtype)
    if own == 0:
        for i in range(SIZE):
            total += held[i]
    return total


@kernel
def loss_and_slopes(
    predicted: Any,
    wanted: Any,
    levels: Any,
    control: Any,
    slopes: Any,
    partial: Any,
    *,
    TERM: Any,
    LEVELS: int,
    SIZE: int,
) -> None:
    """The loss's slope for each output, and each workgroup's sum of the loss.

    `slopes` may be None. Each column of targets belongs to as many outputs as there are levels.
    """
    kind = kl.accumulator(predicted.dtype)
    columns = predicted.shape[1]
    total = kl.cast(0, kind)
    count = predicted.shape[0] * columns
    scale = kl.cast(1, kind) / kl.cast(count, kind)
    if slopes is not None:
        scale = scale * control[SCALE]
    for i in range(kl.global_id(0), count, kl.global_size(0)):
        row, column = i // columns, i % columns
        error = predicted[row, column] - wanted[row, column // LEVELS]
        loss, slope = TERM(error, levels[column % LEVELS])
        total += loss
        if slopes is not None:
            slopes[row, column] = slope * scale
    summed = sum_of_workgroup(total, SIZE)
    if kl.local_id(0) == 0:
        partial[kl.group_id(0)] = summed / kl.cast(columns, kind)


@kernel
def slopes_back(slopes: Any, values: Any, partial: Any, *, SLOPE: Any, SECTION: int) -> None:
    """Multiplies by the activation's slope, and sums the columns of each section of rows.

    `values` are the activation's; None where there is no activation.
    """
    column, section = kl.global_id(0), kl.global_id(1)
    if column < slopes.shape[1] and section < partial.shape[0]:
        total = kl.cast(0, partial.dtype)
        first = section * SECTION
        for row in range(first, kl.minimum(first + SECTION, slopes.shape[0])):
            slope = slopes[row, column]
            if values is not None:
                slope = slope * SLOPE(values[row, column])
                slopes[row, column] = slope
            total += slope
        partial[section, column] = total


@kernel
def column_totals(partial: Any, out: Any) -> None:
    """The sums of columns."""
    column = kl.global_id(0)
    if column < out.shape[0]:
        total = kl.cast(0, partial.dtype)
        for section in range(partial.shape[0]):
            total += partial[section, column]
        out[column] = total


@kernel
def squares(gradient: Any, control: Any, partial: Any, *, SIZE: int) -> None:
    """Each workgroup's sum of squares of the gradient, the scale taken out of it."""
    kind = kl.accumulator(gradient.dtype)
    total = kl.cast(0, kind)
    back = 1 / control[SCALE]
    for i in range(kl.global_id(0), gradient.shape[0], kl.global_size(0)):
        value = gradient[i] * back
        total += value * value
    summed = sum_of_workgroup(total, SIZE)
    if kl.local_id(0) == 0:
        partial[kl.group_id(0)] = summed


@kernel
def finish_step(
    losses: Any, squared: Any, control: Any, lost: Any, limit: Any, *, HALF: bool, SIZE: int
) -> None:
    """Adds the loss to ``lost[0]``, and decides by what factor the gradient counts.

    `squared` is None where its norm is not needed; `limit` is the largest norm allowed, or None.
    In half precision a gradient that is not finite is left out and the scale halved, and after
    many good steps doubled (Micikevicius et al., "Mixed precision training", ICLR 2018). One
    workgroup.
    """
    kind = control.dtype
    own = kl.local_id(0)
    loss = kl.cast(0, kind)
    for i in range(own, losses.shape[0], SIZE):
        loss += losses[i]
    loss = sum_of_workgroup(loss, SIZE)
    factor = 1 / control[SCALE]
    if squared is not None:
        square = kl.cast(0, kind)
        for i in range(own, squared.shape[0], SIZE):
            square += squared[i]
        norm = kl.sqrt(sum_of_workgroup(square, SIZE))
        if limit is not None:
            factor = factor * kl.minimum(limit / (norm + 1e-6), 1.0)
    kl.barrier()
    if own == 0:
        lost[0] = lost[0] + loss
        if HALF:
            if kl.isfinite(norm):
                good = control[GOOD] + 1
                if good >= _GROWTH_INTERVAL:
                    control[SCALE] = kl.minimum(control[SCALE] * 2, _LARGEST_SCALE)
                    good = good * 0
                control[GOOD] = good
            else:
                factor = kl.cast(-1, kind)
                control[SCALE] = kl.maximum(control[SCALE] * 0.5, 1.0)
                control[GOOD] = 0
        control[FACTOR] = factor


@kernel
def update(
    parameters: Any,
    rounded: Any,
    gradient: Any,
    state: Any,
    numbers: Any,
    step: Any,
    control: Any,
    *,
    RULE: Any,
    SLOTS: int,
    NUMBERS: int,
) -> None:
    """One step of an optimizer; `rounded`, where given, gets the parameters in fewer bits."""
    i = kl.global_id(0)
    factor = control[FACTOR]
    if i < parameters.shape[0] and factor > 0:
        kept = ()
        for slot in kl.static_range(SLOTS):
            kept = (*kept, state[slot, i])  # type: ignore[assignment]
        given = ()
        for j in kl.static_range(NUMBERS):
            given = (*given, numbers[step, j])  # type: ignore[assignment]
        value, kept = RULE(parameters[i], gradient[i] * factor, kept, given)
        for slot in kl.static_range(SLOTS):
            state[slot, i] = kept[slot]
        parameters[i] = value
        if rounded is not None:
            rounded[i] = value


@kernel
def copy_vector(source: Any, target: Any) -> None:
    """A copy on the device, rounded to the target's type."""
    i = kl.global_id(0)
    if i < target.shape[0]:
        target[i] = source[i]
