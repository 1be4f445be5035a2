"""What training layer by layer needs beside matrix products.

`control` holds a few numbers that steps hand on without the host: see the constants.
"""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.sums import lane_sum
from portable.nn.optimizers import Rule, Trained

FACTOR: Final = 0
"""What gradients are multiplied by in this step; negative if the step is left out."""
SCALE: Final = 1
"""What the loss is scaled by, so that small gradients survive half precision."""
GOOD: Final = 2
"""Steps since the scale last changed."""

_GROWTH_INTERVAL: Final = 2000
_LARGEST_SCALE: Final = 2.0**24


@kernel
def take_rows(
    x: kl.Array, order: kl.Array | None, first: kl.Scalar, out: kl.Array, *, LANES: int
) -> None:
    """The rows of `x` that come in `order` from `first` on; all in turn if there is no order.

    Parameters
    ----------
    x : array, shape (n, columns)
    order : array of int, or None
    first : int
    out : array, shape (rows, columns)
    LANES : int
        Neighbours that a work-item takes; it divides the columns.
    """
    column, row = kl.global_id(0) * LANES, kl.global_id(1)
    if row < out.shape[0] and column < out.shape[1]:
        source = first + row
        if order is not None:
            source = order[source]
        kl.vstore(out, row, column, kl.vload(x, source, column, lanes=LANES))


@kernel
def squares(gradient: kl.Array, control: kl.Array, partial: kl.Array, *, LANES: int) -> None:
    """Each workgroup's sum of squares of the gradient, the scale taken out of it.

    Parameters
    ----------
    gradient : array, shape (n,)
    control : array, shape (3,)
        See the module.
    partial : array, shape (workgroups,)
    LANES : int
        Neighbours that a work-item takes at a time; it divides n.
    """
    kind = kl.accumulator(gradient.dtype)
    total = kl.splat(kl.cast(0, kind), LANES)
    back = 1 / control[SCALE]
    for i in range(kl.global_id(0) * LANES, gradient.shape[0], kl.global_size(0) * LANES):
        value = kl.cast(kl.vload(gradient, i, lanes=LANES), kind) * back
        total += value * value
    result = kl.workgroup_reduce(kl.add, lane_sum(total))
    if kl.local_id(0) == 0:
        partial[kl.group_id(0)] = result


@function
def total_of(x: kl.Array) -> Any:
    """The sum of a vector, by a workgroup, for each of its work-items."""
    total = kl.cast(0, x.dtype)
    for i in kl.workgroup_range(x.shape[0]):
        total += x[i]
    return kl.workgroup_reduce(kl.add, total)


@kernel
def finish_step(
    sums: Any,
    squared: kl.Array | None,
    control: kl.Array,
    lost: kl.Array,
    limit: kl.Scalar | None,
    *,
    HALF: bool,
) -> None:
    """Adds the loss to ``lost[0]``, and decides by what factor the gradient counts.

    Samples whose class was found are counted in ``lost[1]``. In half precision a gradient that is
    not finite is left out and the scale halved, and after many good steps doubled (Micikevicius et
    al., "Mixed precision training", ICLR 2018). One workgroup.

    Parameters
    ----------
    sums : Sums
    squared : array or None
        Parts of the gradient's square; None where its norm is not needed.
    control : array, shape (3,)
        See the module.
    lost : array, shape (2,)
    limit : float or None
        The largest norm allowed.
    HALF : bool
        Whether losses are scaled.
    """
    kind = control.dtype
    loss = total_of(sums.losses)
    hits = kl.cast(0, kind) if sums.hits is None else total_of(sums.hits)
    factor = 1 / control[SCALE]
    if squared is not None:
        norm = kl.sqrt(total_of(squared))
        if limit is not None:
            factor = factor * kl.minimum(limit / (norm + 1e-6), 1.0)
    kl.barrier()
    if kl.local_id(0) == 0:
        lost[0] = lost[0] + loss
        lost[1] = lost[1] + hits
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
    trained: Trained,
    gradient: kl.Array,
    step: kl.Scalar,
    control: kl.Array,
    *,
    RULE: Rule,
    LANES: int,
) -> None:
    """One step of an optimizer.

    Parameters
    ----------
    trained : Trained
    gradient : array, shape (n,)
    step : int
        Its row of ``trained.numbers``.
    control : array, shape (3,)
        See the module.
    RULE : Rule
    LANES : int
        Neighbours that a work-item takes; it divides n.
    """
    i = kl.global_id(0) * LANES
    factor = control[FACTOR]
    if i < gradient.shape[0] and factor > 0:
        given = [trained.numbers[step, j] for j in range(RULE.numbers)]
        slope = kl.vload(gradient, i, lanes=LANES) * factor
        value = RULE.follow(trained.parameters, trained.state, i, slope, given, LANES)
        if trained.rounded is not None:
            kl.vstore(trained.rounded, i, value)
