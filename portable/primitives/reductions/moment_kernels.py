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
from portable.primitives.reductions.merging import CHAIN, next_stop

_HELD = 8


@function
def share(part: kl.Scalar, whole: kl.Scalar, KIND: Any) -> Any:
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

    def __add__(self, more: Moments) -> Any:
        """Those of the numbers of both together."""
        kind = self.mean.dtype
        total = self.count + more.count
        part = share(more.count, total, kind)
        gap = more.mean - self.mean
        apart = gap * gap * (part * kl.cast(self.count, kind))
        return Moments(self.mean + gap * part, self.squares + more.squares + apart, total)


@function
def of_one(value: kl.Scalar) -> Any:
    """The moments of one number, or of one in each lane."""
    return Moments(value, value * 0, 1)


@dataclass(frozen=True)
class Spread:
    """How moments are found; a constant of `reduce_by_workgroup` and `reduce_columns`.

    The former writes means, which count from the row's first element, and squared deviations; or
    for None instead of means, the latter over a divisor that is given behind them.

    Attributes
    ----------
    merge : Merge
        In which type to compute, and how many neighbours are a vector.
    place : DType
        In which type to count.
    root : bool
        Whether the roots of variances are wanted.
    """

    merge: Any
    place: Any
    root: bool = False

    @property
    def lanes(self) -> int:
        """How many neighbours are a vector."""
        return int(self.merge.lanes)

    def __call__(self, x: Moments, y: Moments) -> Any:
        """The moments of the numbers of both together."""
        return x + y

    def nothing(self) -> Any:
        """The moments of no numbers."""
        zero = self.merge.nothing()
        return Moments(zero, zero, kl.cast(0, self.place))

    def of_few(
        self,
        x: kl.Array,
        outer: tuple[kl.Scalar, ...],
        first: kl.Scalar,
        step: int,
        origin: kl.Scalar,
        AXIS: int,
    ) -> Any:
        """The moments in each lane of `_HELD` elements from `first` on."""
        held = [
            self.merge.read(x, outer, first + k * step, AXIS) - origin
            for k in kl.static_range(_HELD)
        ]
        centre = sum(held) * (1 / _HELD)
        return Moments(centre, sum([(v - centre) * (v - centre) for v in held]), _HELD)

    def of_section(self, arrays: tuple[kl.Array, ...], section: Any, WIDTH: int) -> Any:
        """The moments of this work-item's elements of a section."""
        x, lanes, step = arrays[0], self.lanes, WIDTH * self.lanes
        origin = self.merge.one(x, section.outer, 0)
        full = kl.minimum(section.stop, x.shape[x.ndim - 1] - (lanes - 1))
        zero = self.merge.spread(self.merge.nothing())
        each = Moments(zero, zero, kl.cast(0, self.place))
        r = section.first + kl.local_id(0) % WIDTH * lanes
        while r + (_HELD - 1) * step < full:
            # In chains of bounded length, as sums are: see `merging`.
            part, done = Moments(zero, zero, kl.cast(0, self.place)), 0
            while (r + (_HELD - 1) * step < full) & (done < CHAIN):
                part = part + self.of_few(x, section.outer, r, step, origin, -1)
                r = r + _HELD * step
                done = done + 1
            each = each + part
        while r < full:
            each = each + of_one(self.merge.read(x, section.outer, r) - origin)
            r = r + step
        total = self.nothing()
        for lane in kl.static_range(lanes):
            total = total + Moments(each.mean[lane], each.squares[lane], each.count)
        if lanes > 1:
            for q in range(r, kl.minimum(r + lanes, section.stop)):
                total = total + of_one(self.merge.one(x, section.outer, q) - origin)
        return total

    def put(self, outs: Any, section: Any, moments: Moments) -> None:
        """Writes moments, or a variance or its root."""
        means, squares, divisor = outs
        if means is not None:
            means[*section.outer, section.number] = moments.mean
            squares[*section.outer, section.number] = moments.squares
        else:
            result = moments.squares / kl.cast(divisor, self.merge.kind)
            squares[*section.outer, section.number] = kl.sqrt(result) if self.root else result

    # -- of columns -----------------------------------------------------------------------------

    @property
    def held(self) -> Any:
        """The types of means and squared deviations."""
        return (self.merge.kind, self.merge.kind)

    def started(self, x: kl.Array, outer: tuple[kl.Scalar, ...], r: kl.Scalar) -> Any:
        """Those of no numbers."""
        zero = self.merge.spread(self.merge.nothing())
        return zero, zero

    def further(
        self,
        x: kl.Array,
        outer: tuple[kl.Scalar, ...],
        r: kl.Scalar,
        done: kl.Scalar,
        totals: tuple[kl.Scalar, ...],
        COUNT: int,
    ) -> Any:
        """Those of `done` elements, and of some more along the last axis."""
        axis = x.ndim - 2
        origin = self.merge.read(x, outer, 0, axis)
        if COUNT == _HELD:
            more = self.of_few(x, outer, r, 1, origin, axis)
        else:
            more = of_one(self.merge.read(x, outer, r, axis) - origin)
        mean, squares = totals
        total = Moments(mean, squares, done) + more
        return total.mean, total.squares


@dataclass(frozen=True)
class SpreadOfParts(Spread):
    """The same of the moments of sections of rows, which are read with the length of a row.

    Attributes
    ----------
    part : int
        Elements of a section.
    """

    part: int = 1

    def of_section(self, arrays: Any, section: Any, WIDTH: int) -> Any:
        """The moments of all numbers in this work-item's sections."""
        means, squares, length = arrays
        total = self.nothing()
        for first in range(section.first + kl.local_id(0) % WIDTH, section.stop, CHAIN * WIDTH):
            part = self.nothing()
            for s in range(first, next_stop(first, section.stop, WIDTH), WIDTH):
                count = kl.cast(kl.minimum(self.part, length - s * self.part), self.place)
                part = part + Moments(means[*section.outer, s], squares[*section.outer, s], count)
            total = total + part
        return total
