"""Means and sums of squared deviations in one read, merged in pairs.

T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing
sample variances", COMPSTAT 1982. A few elements at a time are held in registers for the deviations
from their own mean; such parts, then lanes, then work-items are merged. The row's first element is
taken off beforehand, so that means are about as precise as the deviations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.reductions.reduction_kernels import keep_lanes

__all__ = ["moments_by_workgroup", "moments_of_columns", "variances"]

_HELD = 8


@function
def share(part: Any, whole: Any, KIND: Any) -> Any:
    """``part / whole``, of nothing 0."""
    return kl.cast(part, KIND) / kl.cast(kl.maximum(whole, 1), KIND)


@dataclass(frozen=True)
class Moments:
    """The mean of numbers, or of each lane of vectors, their squared deviations, and how many.

    Neither is of any numbers where `count` is 0.
    """

    mean: Any
    squares: Any
    count: Any

    @function
    def __add__(self, more: Any) -> Any:
        """Those of the numbers of both together."""
        kind = self.mean.dtype
        total = self.count + more.count
        part = share(more.count, total, kind)
        gap = more.mean - self.mean
        apart = gap * gap * (part * kl.cast(self.count, kind))
        return Moments(self.mean + gap * part, self.squares + more.squares + apart, total)


@function
def of_one(value: Any) -> Any:
    """The moments of one number, or of one in each lane."""
    return Moments(value, value * 0, 1)


@function
def moments_of_few(
    x: Any, outer: Any, first: Any, step: Any, origin: Any, MERGE: Any, AXIS: Any
) -> Any:
    """The moments in each lane of `_HELD` elements from `first` on."""
    held = [MERGE.read(x, outer, first + k * step, AXIS) - origin for k in kl.static_range(_HELD)]
    centre = sum(held) * (1 / _HELD)
    return Moments(centre, sum([(v - centre) * (v - centre) for v in held]), _HELD)


@function
def moments_of(
    x: Any, outer: Any, first: Any, stop: Any, step: Any, origin: Any, MERGE: Any, AXIS: Any
) -> Any:
    """The moments in each lane from `first` on, and where it stopped."""
    zero = MERGE.spread(MERGE.nothing())
    found = Moments(zero, zero, first * 0)
    r = first
    while r + (_HELD - 1) * step < stop:
        found = found + moments_of_few(x, outer, r, step, origin, MERGE, AXIS)
        r = r + _HELD * step
    while r < stop:
        found = found + of_one(MERGE.read(x, outer, r, AXIS) - origin)
        r = r + step
    return found, r


@kernel
def moments_by_workgroup(
    x: Any,
    means: Any,
    squares: Any,
    divisor: Any,
    *,
    MERGE: Any,
    WIDTH: int,
    TALL: int,
    SECTION: int,
    ROOT: bool = False,
) -> None:
    """Mean and squared deviations of each section of `SECTION` elements of the last axis.

    Means count from the row's first element. Where a row is one section `means` may be None; then
    `squares` gets the variances, the squared deviations over `divisor`, or their roots if `ROOT`.

    Work is cut as in `portable.primitives.reductions.workgroup_kernels.reduce_by_workgroup`.
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
    zero = MERGE.nothing()
    found = Moments(zero, zero, row * 0)
    if inside:
        outer = unravelled(row, lead)
        stop = kl.minimum(s * SECTION + SECTION, length)
        full = kl.minimum(stop, length - (MERGE.lanes - 1))
        first = s * SECTION + across * MERGE.lanes
        origin = MERGE.one(x, outer, 0)
        lanes, r = moments_of(x, outer, first, full, WIDTH * MERGE.lanes, origin, MERGE, -1)
        for lane in kl.static_range(MERGE.lanes):
            found = found + Moments(lanes.mean[lane], lanes.squares[lane], lanes.count)
        if MERGE.lanes > 1:
            for q in range(r, kl.minimum(r + MERGE.lanes, stop)):
                found = found + of_one(MERGE.one(x, outer, q) - origin)
    found = kl.workgroup_reduce(kl.add, found, width=WIDTH)
    if inside and across == 0:
        if means is None:
            result = found.squares / kl.cast(divisor, MERGE.kind)
            squares[row] = kl.sqrt(result) if ROOT else result
        else:
            index = unravelled(row, lead)
            means[*index, s] = found.mean
            squares[*index, s] = found.squares


@kernel
def moments_of_columns(
    x: Any, means: Any, squares: Any, *, MERGE: Any, STRIP: int, SECTION: int
) -> None:
    """Mean and squared deviations of sections of the last axis, neighbours lying along another.

    A work-item does `STRIP` vectors of rows, which lie along the last axis but one, side by side:
    a few elements of each in turn.
    """
    lead = x.shape[: x.ndim - 1]
    axis = x.ndim - 2
    sections = means.shape[means.ndim - 1]
    rows = product_of(lead)
    strips = kl.cdiv(rows, MERGE.lanes * STRIP)
    item = kl.global_id(0)
    s = item // strips
    row = item % strips * (MERGE.lanes * STRIP)
    if s < sections:
        strip = kl.private((STRIP,), (MERGE.kind, MERGE.kind), lanes=MERGE.lanes)
        vectors = kl.minimum(kl.cdiv(rows - row, MERGE.lanes), STRIP)
        first = s * SECTION
        stop = kl.minimum(first + SECTION, x.shape[x.ndim - 1])
        if STRIP == 1:
            alone = unravelled(row, lead)
            origin = MERGE.read(x, alone, 0, axis)
            found, _ = moments_of(x, alone, first, stop, 1, origin, MERGE, axis)
            strip[0] = found.mean, found.squares
        else:
            zero = MERGE.spread(MERGE.nothing())
            for k in range(vectors):
                strip[k] = zero, zero
            whole = first + (stop - first) // _HELD * _HELD
            for r in range(first, whole, _HELD):
                for k in range(vectors):
                    outer = unravelled(row + k * MERGE.lanes, lead)
                    origin = MERGE.read(x, outer, 0, axis)
                    mean, spread = strip[k]
                    found = Moments(mean, spread, r - first)
                    found = found + moments_of_few(x, outer, r, 1, origin, MERGE, axis)
                    strip[k] = found.mean, found.squares
            for r in range(whole, stop):
                for k in range(vectors):
                    outer = unravelled(row + k * MERGE.lanes, lead)
                    value = MERGE.read(x, outer, r, axis) - MERGE.read(x, outer, 0, axis)
                    mean, spread = strip[k]
                    found = Moments(mean, spread, r - first) + of_one(value)
                    strip[k] = found.mean, found.squares
        for k in range(vectors):
            mean, spread = strip[k]
            keep_lanes(means, row + k * MERGE.lanes, s, mean, MERGE.lanes)
            keep_lanes(squares, row + k * MERGE.lanes, s, spread, MERGE.lanes)


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
    total = kl.cast(0, KIND)
    if inside:
        for s in range(across, sections, WIDTH):
            count = kl.minimum(SECTION, length - s * SECTION)
            total = total + means[row, s] * share(count, length, KIND)
    mean = kl.workgroup_reduce(kl.add, total, width=WIDTH)
    total = kl.cast(0, KIND)
    if inside:
        for s in range(across, sections, WIDTH):
            gap = means[row, s] - mean
            count = kl.minimum(SECTION, length - s * SECTION)
            total = total + squares[row, s] + gap * gap * kl.cast(count, KIND)
    total = kl.workgroup_reduce(kl.add, total, width=WIDTH)
    if inside and across == 0:
        result = total / kl.cast(divisor, KIND)
        out[row] = kl.sqrt(result) if ROOT else result
