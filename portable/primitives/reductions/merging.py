"""What reductions and scans do to elements: how two totals become one, a constant of kernels.

Sums of floating-point numbers that are rounded at each step drift with the length of the chain of
steps, and those of equal numbers all one way. So a work-item adds `CHAIN` of them up at most before
it goes on with a new total, adds up `CHAIN` such totals at most, and so on: the error grows with
the logarithm of the length, as that of pairwise summation does (N. J. Higham, "The accuracy of
floating point summation", SIAM J. Sci. Comput. 14, 1993), for one more addition in `CHAIN`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from portable import lang as kl
from portable.lang.function import function

CHAIN = 32
"""Totals that are merged one after the other at most, where each step rounds."""
LEVELS = 2
"""How often totals of totals are taken at most; `CHAIN` to the power of one more go into a sum."""

CHAINS = 4
"""Vectors, or elements, that a work-item merges side by side: few wait for the one before."""


@function
def folded(value: Any, lanes: int, op: Any) -> Any:
    """The lanes of a vector merged by halves."""
    items = [value[lane] for lane in kl.static_range(lanes)]
    width = lanes
    for _ in kl.static_range(4):
        if width > 1:
            width = width // 2
            items = [op(items[lane], items[lane + width]) for lane in kl.static_range(width)]
    return items[0]


@function
def folded_lanes(value: kl.Scalar, lanes: int, op: Any) -> Any:
    """The same of a vector, by vectors half as long."""
    half = lanes // 2
    if lanes == 1:
        return value
    low = kl.shuffle2(value, value, tuple([0 + k for k in range(half)]))
    high = kl.shuffle2(value, value, tuple([half + k for k in range(half)]))
    return folded_lanes(op(low, high), half, op)


@function
def levels_for(steps: int) -> Any:
    """How often totals of totals are taken in a chain of so many steps, a constant of kernels."""
    return 0 if steps <= CHAIN else 1 if steps <= CHAIN * CHAIN else LEVELS


@function
def next_stop(first: kl.Scalar, stop: kl.Scalar, step: int) -> Any:
    """Where a chain from `first` on ends, in steps of so much, if not at `stop` before."""
    return first + kl.minimum(kl.maximum(stop - first, 0), CHAIN * step)


class Line(NamedTuple):
    """The elements of an array along its last axis, at some place in the dimensions before.

    Attributes
    ----------
    x : array, or what holds several
        The array, whole.
    outer : tuple of int
        The place: an index for each dimension but the last.
    """

    x: Any
    outer: Any


class Walk(NamedTuple):
    """Vectors of a line, which are merged.

    Attributes
    ----------
    line : Line
    first, count : int
        Where the first begins, and in how many elements from there on others may.
    step, jump : int
        How far apart those are that are read together, and how much further the next ones begin.
    """

    line: Line
    first: Any
    count: Any
    step: Any
    jump: Any


@dataclass(frozen=True)
class Merge:
    """What a reduction or a scan does; kernels call it with two totals, or with vectors of them.

    Attributes
    ----------
    op : Function
        Merges two values or vectors of them; associative and commutative.
    kind : DType
        The type to merge in.
    initial : object
        The neutral element.
    first : Function or None
        What is done to each element before.
    lanes : int
        How many neighbours a work-item takes at a time.
    """

    op: Any
    kind: Any
    initial: Any
    first: Any = None
    lanes: int = 1

    def taking(self, lanes: int, first: Any = None) -> Merge:
        """The same of so many neighbours at a time, with this done to each element before."""
        return replace(self, lanes=lanes, first=first)

    def __call__(self, x: kl.Scalar, y: kl.Scalar) -> Any:
        """What two totals come to."""
        return self.op(x, y)

    @property
    def rounds(self) -> bool:
        """Whether totals drift, so that chains of them are kept short."""
        exact = self.op in (kl.maximum, kl.minimum)
        return bool(self.kind.kind in "fc" and not exact)

    def nothing(self) -> Any:
        """The total of nothing."""
        return kl.cast(self.initial, self.kind)

    def spread(self, value: kl.Scalar) -> Any:
        """A number in every lane."""
        return kl.splat(value, self.lanes)

    def one(self, line: Line, r: kl.Scalar) -> Any:
        """The element at `r` of a row, as a total."""
        value = line.x[*line.outer, r]
        return kl.cast(value if self.first is None else self.first(value), self.kind)

    def read(self, line: Line, r: kl.Scalar, axis: int = -1, ahead: int = 0) -> Any:
        """The elements in a work-item's lanes, which lie along an axis, as totals."""
        values = kl.vload(line.x, *line.outer, r, lanes=self.lanes, axis=axis, ahead=ahead)
        return kl.cast(values if self.first is None else self.first(values), self.kind)

    def folded(self, values: kl.Scalar) -> Any:
        """What the lanes come to."""
        return folded(values, self.lanes, self.op)

    # -- of rows, see `kernels.reduce_by_workgroup` ------------------------------------------------

    def given(self, arrays: tuple[kl.Array, ...]) -> Any:
        """What elements are read from."""
        return arrays[0]

    def of_section(self, arrays: tuple[kl.Array, ...], section: Any, WIDTH: int) -> Any:
        """What this work-item's elements of a section come to."""
        jump = CHAINS * WIDTH * self.lanes
        levels = levels_for(section.size // jump)
        line = Line(self.given(arrays), section.outer)
        return self.along(line, section.first, section.stop, jump, WIDTH, CHAINS, levels)

    def along(
        self,
        line: Line,
        begin: kl.Scalar,
        stop: kl.Scalar,
        jump: int,
        WIDTH: int,
        AHEAD: int,
        LEVELS: int,
    ) -> Any:
        """What this work-item's elements come to; neighbours take neighbouring vectors.

        From `begin` on it takes `AHEAD` vectors, `WIDTH` of them apart, and goes on `jump` elements
        further.
        """
        first = begin + kl.local_id(0) % WIDTH * self.lanes
        full = kl.minimum(stop, line.x.shape[line.x.ndim - 1] - (self.lanes - 1))
        walk = Walk(line, first, full - first, WIDTH * self.lanes, jump)
        total, r, left = self.vectors(walk, -1, AHEAD, LEVELS)
        result = self.folded(total)
        if self.lanes > 1:
            for k in range(kl.minimum(left + (stop - full), self.lanes)):
                result = self(result, self.one(line, r + k))
        return result

    def vectors(self, walk: Walk, AXIS: int, AHEAD: int, LEVELS: int = LEVELS) -> Any:
        """What vectors come to, which element is next, and how many are left.

        It reads `AHEAD` of them before it merges them. It counts what is left, since positions
        beyond the end may not fit into an index. Totals of totals are taken `LEVELS` times.
        """
        levels = LEVELS if self.rounds else 0
        total, r, left = self.chain(walk, AXIS, AHEAD, levels, None)
        step = walk.step
        while left > 0:
            total = self.more(walk.line, r, step, AXIS, total, 1)
            r, left = r + step, left - step
        return total, r, left

    def chain(self, walk: Walk, AXIS: int, AHEAD: int, LEVELS: int, MOST: Any = CHAIN) -> Any:
        """What at most so many steps, or chains of such, come to; as of `vectors`."""
        line, first, count, step, jump = walk
        total, r, left, done = self.spread(self.nothing()), first, count, 0
        while (left > (AHEAD - 1) * step) & (MOST is None or done < MOST):
            if LEVELS > 0:
                rest = Walk(line, r, left, step, jump)
                part, r, left = self.chain(rest, AXIS, AHEAD, LEVELS - 1)
                total = self(total, part)
            else:
                total = self.more(line, r, step, AXIS, total, AHEAD)
                r, left = r + jump, left - jump
            done = done + 1
        return total, r, left

    def more(
        self, line: Line, r: kl.Scalar, step: kl.Scalar, AXIS: int, total: kl.Scalar, COUNT: int
    ) -> Any:
        """A total and `COUNT` vectors, all of them read before they are merged by halves."""
        ahead = [self.read(line, r + k * step, AXIS) for k in kl.static_range(COUNT)]
        return self(total, folded(ahead, COUNT, self.op))

    def put(self, arrays: tuple[kl.Array, ...], section: Any, total: kl.Scalar) -> None:
        """Writes the total of a section."""
        arrays[0][*section.outer, section.number] = total

    # -- of columns, see `kernels.reduce_columns` --------------------------------------------------

    @property
    def held(self) -> Any:
        """The types of which totals are held."""
        return (self.kind,)

    def started(self, line: Line, r: kl.Scalar) -> Any:
        """The totals of nothing, in each lane."""
        return (self.spread(self.nothing()),)

    def further(self, line: Line, r: kl.Scalar, done: kl.Scalar, totals: Any, COUNT: int) -> Any:
        """Totals and `COUNT` vectors along the last axis."""
        return (self.more(line, r, 1, line.x.ndim - 2, totals[0], COUNT),)
