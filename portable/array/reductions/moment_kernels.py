"""Means and sums of squared deviations in one read, merged in pairs.

T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing
sample variances", COMPSTAT 1982. A few elements at a time are held in registers for the deviations
from their own mean; such parts, then lanes, then work-items are merged. The row's first element is
taken off beforehand, so that means are about as precise as the deviations.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.array.base.elementwise_kernel import product_of, unravelled
from portable.array.reductions.reduction_kernels import read
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["moments_of_columns", "moments_of_strips", "moments_together", "variances"]

_HELD = 8


@function
def share(part: Any, whole: Any, KIND: Any) -> Any:
    """``part / whole``, of nothing 0."""
    return kl.cast(part, KIND) / kl.cast(kl.maximum(whole, 1), KIND)


@function
def joined(
    mean: Any, squares: Any, count: Any, more_mean: Any, more_squares: Any, more: Any, KIND: Any
) -> Any:
    """Mean and squared deviations of `count` numbers and `more` together."""
    part = share(more, count + more, KIND)
    gap = more_mean - mean
    return mean + gap * part, squares + more_squares + gap * gap * (part * kl.cast(count, KIND))


@function
def moments_of_few(
    x: Any, outer: Any, first: Any, step: Any, origin: Any, LANES: Any, AXIS: Any, KIND: Any
) -> Any:
    """Mean and squared deviations in each lane of `_HELD` elements from `first` on."""
    held = ()
    for k in kl.static_range(_HELD):
        held = (*held, read(x, outer, first + k * step, LANES, AXIS, KIND, None) - origin)  # type: ignore[assignment]
    total = held[0]  # type: ignore[misc]
    for k in kl.static_range(1, _HELD):
        total = total + held[k]
    centre = total * (1 / _HELD)
    spread = (held[0] - centre) * (held[0] - centre)  # type: ignore[misc]
    for k in kl.static_range(1, _HELD):
        spread = spread + (held[k] - centre) * (held[k] - centre)
    return centre, spread


@function
def moments_of(
    x: Any,
    outer: Any,
    first: Any,
    stop: Any,
    step: Any,
    origin: Any,
    LANES: Any,
    AXIS: Any,
    KIND: Any,
) -> Any:
    """Means and squared deviations in each lane from `first` on, their number, where it stopped."""
    zero = kl.cast(0, KIND)
    mean = kl.splat(zero, LANES) if LANES > 1 else zero
    squares = mean
    count = first * 0
    r = first
    while r + (_HELD - 1) * step < stop:
        centre, spread = moments_of_few(x, outer, r, step, origin, LANES, AXIS, KIND)
        mean, squares = joined(mean, squares, count, centre, spread, _HELD, KIND)
        count = count + _HELD
        r = r + _HELD * step
    while r < stop:
        value = read(x, outer, r, LANES, AXIS, KIND, None) - origin
        mean, squares = joined(mean, squares, count, value, value * 0, 1, KIND)
        count = count + 1
        r = r + step
    return mean, squares, count, r


@kernel
def moments_together(
    x: Any,
    means: Any,
    squares: Any,
    divisor: Any,
    *,
    KIND: Any,
    LANES: int,
    WIDTH: int,
    TALL: int,
    SECTION: int,
    ROOT: bool = False,
) -> None:
    """Mean and squared deviations of each section of `SECTION` elements of the last axis.

    Means count from the row's first element. Where a row is one section `means` may be None; then
    `squares` gets the variances, the squared deviations over `divisor`, or their roots if `ROOT`.

    Work is cut as in `portable.array.reductions.workgroup_kernels.reduce_together`.
    """
    lead = x.shape[: x.ndim - 1]
    length = x.shape[x.ndim - 1]
    sections = 1 if means is None else means.shape[means.ndim - 1]
    item = kl.local_id(0)
    across = item % WIDTH
    group = kl.group_id(0)
    s = group % sections
    row = group // sections * TALL + item // WIDTH
    inside = row < product_of(lead)
    count = row * 0
    mean = kl.cast(0, KIND)
    spread = kl.cast(0, KIND)
    if inside:
        outer = unravelled(row, lead)
        stop = kl.minimum(s * SECTION + SECTION, length)
        full = kl.minimum(stop, length - (LANES - 1))
        first = s * SECTION + across * LANES
        origin = read(x, outer, 0, 1, -1, KIND, None)
        lane_means, lane_spreads, each, r = moments_of(
            x, outer, first, full, WIDTH * LANES, origin, LANES, -1, KIND
        )
        if LANES > 1:
            for lane in kl.static_range(LANES):
                mean, spread = joined(
                    mean, spread, count, lane_means[lane], lane_spreads[lane], each, KIND
                )
                count = count + each
            for q in range(r, kl.minimum(r + LANES, stop)):
                value = read(x, outer, q, 1, -1, KIND, None) - origin
                mean, spread = joined(mean, spread, count, value, value * 0, 1, KIND)
                count = count + 1
        else:
            mean, spread, count = lane_means, lane_spreads, each
    all_means = kl.local((WIDTH * TALL,), KIND)
    all_spreads = kl.local((WIDTH * TALL,), KIND)
    counts = kl.local((WIDTH * TALL,), count.dtype)
    all_means[item], all_spreads[item], counts[item] = mean, spread, count
    kl.barrier()
    half = WIDTH
    for _ in kl.static_range(10):
        if half > 1:
            half = half // 2
            if across < half:
                other = item + half
                all_means[item], all_spreads[item] = joined(
                    all_means[item],
                    all_spreads[item],
                    counts[item],
                    all_means[other],
                    all_spreads[other],
                    counts[other],
                    KIND,
                )
                counts[item] = counts[item] + counts[other]
            kl.barrier()
    if inside and across == 0:
        if means is None:
            result = all_spreads[item] / kl.cast(divisor, KIND)
            squares[row] = kl.sqrt(result) if ROOT else result
        else:
            index = unravelled(row, lead)
            means[*index, s] = all_means[item]
            squares[*index, s] = all_spreads[item]


@kernel
def moments_of_columns(
    x: Any, means: Any, squares: Any, *, KIND: Any, LANES: int, SECTION: int
) -> None:
    """Mean and squared deviations of sections of the last axis, neighbours lying along another.

    A work-item does a vector of `LANES` rows, which lie along the last axis but one.
    """
    lead = x.shape[: x.ndim - 1]
    length = x.shape[x.ndim - 1]
    sections = means.shape[means.ndim - 1]
    rows = product_of(lead)
    vectors = kl.cdiv(rows, LANES)
    item = kl.global_id(0)
    s = item // vectors
    row = item % vectors * LANES
    if s < sections:
        stop = kl.minimum(s * SECTION + SECTION, length)
        outer = unravelled(row, lead)
        origin = read(x, outer, 0, LANES, x.ndim - 2, KIND, None)
        mean, spread, _, _ = moments_of(
            x, outer, s * SECTION, stop, 1, origin, LANES, x.ndim - 2, KIND
        )
        keep_lanes(means, row, s, mean, LANES)
        keep_lanes(squares, row, s, spread, LANES)


@kernel
def moments_of_strips(
    x: Any, means: Any, squares: Any, *, KIND: Any, LANES: int, STRIP: int, SECTION: int
) -> None:
    """`moments_of_columns` of `STRIP` vectors side by side, read a row after the other."""
    lead = x.shape[: x.ndim - 1]
    sections = means.shape[means.ndim - 1]
    rows = product_of(lead)
    strips = kl.cdiv(rows, LANES * STRIP)
    item = kl.global_id(0)
    s = item // strips
    row = item % strips * (LANES * STRIP)
    if s < sections:
        mean = kl.private((STRIP,), KIND, lanes=LANES)
        spread = kl.private((STRIP,), KIND, lanes=LANES)
        vectors = kl.minimum(kl.cdiv(rows - row, LANES), STRIP)
        zero = kl.splat(kl.cast(0, KIND), LANES) if LANES > 1 else kl.cast(0, KIND)
        for k in range(vectors):
            mean[k], spread[k] = zero, zero
        first = s * SECTION
        stop = kl.minimum(first + SECTION, x.shape[x.ndim - 1])
        whole = first + (stop - first) // _HELD * _HELD
        for r in range(first, whole, _HELD):
            for k in range(vectors):
                outer = unravelled(row + k * LANES, lead)
                origin = read(x, outer, 0, LANES, x.ndim - 2, KIND, None)
                more = moments_of_few(x, outer, r, 1, origin, LANES, x.ndim - 2, KIND)
                mean[k], spread[k] = joined(mean[k], spread[k], r - first, *more, _HELD, KIND)
        for r in range(whole, stop):
            for k in range(vectors):
                outer = unravelled(row + k * LANES, lead)
                origin = read(x, outer, 0, LANES, x.ndim - 2, KIND, None)
                value = read(x, outer, r, LANES, x.ndim - 2, KIND, None) - origin
                mean[k], spread[k] = joined(
                    mean[k], spread[k], r - first, value, value * 0, 1, KIND
                )
        for k in range(vectors):
            keep_lanes(means, row + k * LANES, s, mean[k], LANES)
            keep_lanes(squares, row + k * LANES, s, spread[k], LANES)


@function
def keep_lanes(out: Any, row: Any, s: Any, value: Any, LANES: Any) -> None:
    """Writes what belongs to section `s` of `LANES` rows from `row` on."""
    for lane in kl.static_range(LANES):
        at = unravelled(row + lane, out.shape[: out.ndim - 1])
        out[*at, s] = value[lane] if LANES > 1 else value


@kernel
def variances(
    means: Any,
    squares: Any,
    length: Any,
    divisor: Any,
    out: Any,
    *,
    KIND: Any,
    WIDTH: int,
    TALL: int,
    SECTION: int,
    ROOT: bool,
) -> None:
    """The variances, or deviations if `ROOT`, of rows given by sections of `SECTION` numbers.

    A workgroup does `TALL` rows, `WIDTH` work-items each.
    """
    sections = means.shape[1]
    item = kl.local_id(0)
    across = item % WIDTH
    row = kl.group_id(0) * TALL + item // WIDTH
    inside = row < out.shape[0]
    shared = kl.local((WIDTH * TALL,), KIND)
    total = kl.cast(0, KIND)
    if inside:
        for s in range(across, sections, WIDTH):
            count = kl.minimum(SECTION, length - s * SECTION)
            total = total + means[row, s] * share(count, length, KIND)
    shared[item] = total
    add_pairs(shared, WIDTH)
    mean = shared[item - across]
    kl.barrier()
    total = kl.cast(0, KIND)
    if inside:
        for s in range(across, sections, WIDTH):
            gap = means[row, s] - mean
            count = kl.minimum(SECTION, length - s * SECTION)
            total = total + squares[row, s] + gap * gap * kl.cast(count, KIND)
    shared[item] = total
    add_pairs(shared, WIDTH)
    if inside and across == 0:
        result = shared[item] / kl.cast(divisor, KIND)
        out[row] = kl.sqrt(result) if ROOT else result


@function
def add_pairs(shared: Any, WIDTH: Any) -> None:
    """Adds up the numbers of `WIDTH` work-items, which the first of them then has."""
    item = kl.local_id(0)
    kl.barrier()
    half = WIDTH
    for _ in kl.static_range(10):
        if half > 1:
            half = half // 2
            if item % WIDTH < half:
                shared[item] = shared[item] + shared[item + half]
            kl.barrier()
