"""The positions of least and greatest elements along one axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.primitives.maps.elementwise_kernel import lane_numbers
from portable.primitives.reductions.merging import CHAINS

__all__ = ["Best", "BestOfBlocks"]


@function
def wins(x: Any, y: Any, LARGEST: Any) -> Any:
    """Whether a later `x` wins over an earlier `y`: by value, or as the first NaN."""
    better = x > y if LARGEST else x < y
    return better | ((x != x) & (y == y))


@function
def same(x: Any, y: Any) -> Any:
    """Whether two numbers are equal, or both NaN."""
    return (x == y) | ((x != x) & (y != y))


@dataclass(frozen=True)
class Found:
    """An element, or a vector of some, and its position."""

    value: Any
    place: Any


@dataclass(frozen=True)
class Best:
    """How least or greatest elements are found; a constant of kernels.

    Of `reduce_by_workgroup` and `reduce_columns`. The former reads an array and the positions of
    its elements, or None: their own; both write values and positions.

    Attributes
    ----------
    largest : bool
        Whether the greatest are looked for.
    kind, place : DType
        In which values are compared, and positions counted.
    lanes : int
        How many neighbours are a vector.
    """

    largest: bool
    kind: Any
    place: Any
    lanes: int

    def __call__(self, x: Any, y: Any) -> Any:
        """The one of two that is greater, or less, or else comes first."""
        tied = same(x.value, y.value) & (y.place < x.place)
        return kl.where(wins(y.value, x.value, self.largest) | tied, y, x)

    def nothing(self) -> Any:
        """What work-items without a row have."""
        return Found(kl.cast(0, self.kind), kl.cast(0, self.place))

    def at(self, arrays: Any, outer: Any, r: Any) -> Any:
        """The element at `r` of a row, and its position: `r`, or what is given."""
        x, places = arrays
        return Found(x[*outer, r], kl.cast(r if places is None else places[*outer, r], self.place))

    def of_section(self, arrays: Any, own: Any, WIDTH: Any) -> Any:
        """The best of this work-item's elements; without any, it has the section's first."""
        x, lanes = arrays[0], self.lanes
        r = own.first + kl.local_id(0) % WIDTH * lanes
        found = self.at(arrays, own.outer, kl.where(r < own.stop, r, own.first))
        if lanes > 1:
            full = kl.minimum(own.stop, x.shape[x.ndim - 1] - (lanes - 1))
            steps = lane_numbers(self.place, lanes)
            each = Found(kl.splat(found.value, lanes), kl.splat(found.place, lanes))
            while r < full:
                values = kl.vload(x, *own.outer, r, lanes=lanes)
                new = Found(values, steps + kl.cast(r, self.place))
                each = kl.where(wins(new.value, each.value, self.largest), new, each)
                r = r + WIDTH * lanes
            for lane in kl.static_range(lanes):
                found = self(found, Found(each.value[lane], each.place[lane]))
        end = kl.minimum(r + lanes, own.stop) if lanes > 1 else own.stop
        for q in range(r, end, 1 if lanes > 1 else WIDTH):
            one = self.at(arrays, own.outer, q)
            found = kl.where(wins(one.value, found.value, self.largest), one, found)
        return found

    def put(self, outs: Any, own: Any, found: Any) -> None:
        """Writes a value and its position."""
        outs[0][*own.outer, own.number] = found.value
        outs[1][*own.outer, own.number] = kl.cast(found.place, kl.i64)

    # -- of columns -----------------------------------------------------------------------------

    @property
    def held(self) -> Any:
        """The types of values and positions."""
        return (self.kind, self.place)

    def started(self, x: Any, outer: Any, r: Any) -> Any:
        """The elements at `r`, and their position."""
        value = kl.vload(x, *outer, r, lanes=self.lanes, axis=x.ndim - 2)
        return value, kl.splat(kl.cast(r, self.place), self.lanes)

    def further(self, x: Any, outer: Any, r: Any, done: Any, totals: Any, COUNT: int) -> Any:
        """The best of these and of `COUNT` elements along the last axis."""
        best = Found(*totals)
        for k in kl.static_range(COUNT):
            new = Found(*self.started(x, outer, r + k))
            best = kl.where(wins(new.value, best.value, self.largest), new, best)
        return best.value, best.place


@dataclass(frozen=True)
class BestOfBlocks(Best):
    """The same for work-items that do long stretches alone.

    Each finds the best value of every `block` elements of its section, and then where in the first
    of the best blocks that is, by ever smaller parts of it. So it compares no positions, which
    costs several times as much where many small elements make a vector.

    Attributes
    ----------
    merge : Merge
        Finds the better value of two.
    block : int
        Elements of which the best value is found at a time.
    """

    merge: Any
    block: int

    def of_section(self, arrays: Any, own: Any, WIDTH: Any) -> Any:
        """The best of a section."""
        x, place, jump = arrays[0], own.first, CHAINS * self.lanes
        best = x[*own.outer, place]
        for block in range(place, own.stop, self.block):
            end = kl.minimum(block + self.block, own.stop)
            value = self.merge.along(x, own.outer, block, end, jump, 1, CHAINS, 0)
            if wins(value, best, self.largest):
                best = value
                place = block
        here = own.stop - place <= 4 * jump
        while not here:
            end = kl.minimum(place + 4 * jump, own.stop)
            here = same(self.merge.along(x, own.outer, place, end, jump, 1, CHAINS, 0), best)
            place = kl.where(here, place, place + 4 * jump)
        if self.lanes > 1:
            wanted = kl.splat(best, self.lanes)
            full = own.stop - (self.lanes - 1)
            here = place >= full
            while not here:
                here = kl.count(same(self.merge.read(x, own.outer, place), wanted)) > 0
                place = kl.where(here, place, place + self.lanes)
                here = here | (place >= full)
        while not same(x[*own.outer, place], best):
            place = place + 1
        return Found(best, kl.cast(place, self.place))
