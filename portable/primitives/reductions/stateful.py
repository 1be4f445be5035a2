"""Reductions that remember more than a number: the greatest elements, and variances."""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from portable import lang as kl
from portable.dtypes import DType, int32, int64
from portable.lang.function import function
from portable.primitives.base.operands import highest, lowest, power_of_two
from portable.primitives.base.recipe import Recipe
from portable.primitives.maps.elementwise import recorded
from portable.primitives.maps.elementwise_kernel import lane_numbers
from portable.primitives.maps.work import conversion_to
from portable.primitives.reductions import axis
from portable.primitives.reductions.kernels import Spread, SpreadOfParts
from portable.primitives.reductions.merging import CHAINS, Line, Merge, folded_lanes
from portable.primitives.tuning import best_for, moments_for

# The positions of least and greatest elements along one axis.


@function
def wins(x: kl.Scalar, y: kl.Scalar, LARGEST: bool) -> Any:
    """Whether a later `x` wins over an earlier `y`: by value, or as the first NaN."""
    better = x > y if LARGEST else x < y
    return better | ((x != x) & (y == y))


@function
def same(x: kl.Scalar, y: kl.Scalar) -> Any:
    """Whether two numbers are equal, or both NaN."""
    return (x == y) | ((x != x) & (y != y))


@function
def later_if_greater(x: kl.Scalar, y: kl.Scalar) -> Any:
    """The greater of two numbers, neither of them NaN."""
    return kl.where(y > x, y, x)


@function
def later_if_less(x: kl.Scalar, y: kl.Scalar) -> Any:
    """The less of two numbers, neither of them NaN."""
    return kl.where(y < x, y, x)


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

    def __call__(self, x: Found, y: Found) -> Any:
        """The one of two that is greater, or less, or else comes first."""
        tied = same(x.value, y.value) & (y.place < x.place)
        return kl.where(wins(y.value, x.value, self.largest) | tied, y, x)

    def nothing(self) -> Any:
        """What work-items without a row have."""
        return Found(kl.cast(0, self.kind), kl.cast(0, self.place))

    def at(self, arrays: Any, outer: tuple[kl.Scalar, ...], r: kl.Scalar) -> Any:
        """The element at `r` of a row, and its position: `r`, or what is given."""
        x, places = arrays
        return Found(x[*outer, r], kl.cast(r if places is None else places[*outer, r], self.place))

    def of_section(self, arrays: Any, section: Any, WIDTH: int) -> Any:
        """The best of this work-item's elements; without any, it has the section's first."""
        lanes = self.lanes
        r = section.first + kl.local_id(0) % WIDTH * lanes
        if lanes > 1:
            return self.of_vectors(arrays[0], section, r, WIDTH)
        best = self.at(arrays, section.outer, kl.where(r < section.stop, r, section.first))
        for q in range(r, section.stop, WIDTH):
            one = self.at(arrays, section.outer, q)
            best = kl.where(wins(one.value, best.value, self.largest), one, best)
        return best

    def of_vectors(self, x: kl.Array, section: Any, first: kl.Scalar, WIDTH: int) -> Any:
        """The best of this work-item's vectors; the last one of a row ends where the row does.

        Each lane remembers where its vector began, in several chains side by side. NaN wins over
        nothing there: whether there is one is looked for by the way, and where it is afterwards.
        """
        outer, step = section.outer, WIDTH * self.lanes
        last = section.stop - self.lanes
        begun = kl.minimum(first, last)
        value = kl.vload(x, *outer, begun, lanes=self.lanes)
        start = Found(value, kl.splat(kl.cast(begun, self.place), self.lanes))
        chains = tuple([start for _ in range(CHAINS)])
        odd = self.with_nan(kl.splat(kl.cast(0, self.kind), self.lanes), value, value)
        r = first + step
        while last - r >= (CHAINS - 1) * step:
            given = [kl.vload(x, *outer, r + k * step, lanes=self.lanes) for k in range(CHAINS)]
            chains = tuple(
                [self.further_on(chains[k], given[k], r + k * step) for k in range(CHAINS)]
            )
            for k in kl.static_range(0, CHAINS, 2):
                odd = self.with_nan(odd, given[k], given[k + 1])
            r = r + CHAINS * step
        each = chains[0]
        for k in kl.static_range(1, CHAINS):
            each = self.of_numbers(each, chains[k])
        while r < section.stop:
            begin = kl.minimum(r, last)
            values = kl.vload(x, *outer, begin, lanes=self.lanes)
            each = self.further_on(each, values, begin)
            odd = self.with_nan(odd, values, values)
            r = r + step
        best = folded_lanes(
            each.value, self.lanes, later_if_greater if self.largest else later_if_less
        )
        places = each.place + lane_numbers(self.place, self.lanes)
        beyond = kl.cast(section.stop, self.place)
        at = folded_lanes(kl.where(each.value == best, places, beyond), self.lanes, kl.minimum)
        any_odd = folded_lanes(odd, self.lanes, kl.add)
        if self.kind.is_float and any_odd != any_odd:
            at = kl.cast(begun, self.place)
            best = x[*outer, begun]
            while best == best:
                at = at + 1
                best = x[*outer, at]
        return Found(best, at)

    def of_numbers(self, x: Found, y: Found) -> Any:
        """The one of two that is greater, or less, or else comes first, neither of them NaN."""
        better = y.value > x.value if self.largest else y.value < x.value
        return kl.where(better | ((y.value == x.value) & (y.place < x.place)), y, x)

    def with_nan(self, odd: kl.Scalar, x: kl.Scalar, y: kl.Scalar) -> Any:
        """The same, with NaN in the lanes where one of two vectors has it."""
        if not self.kind.is_float:
            return odd
        return kl.where(
            (x != x) | (y != y), kl.splat(kl.cast(math.nan, self.kind), self.lanes), odd
        )

    def further_on(self, best: Found, values: kl.Scalar, r: kl.Scalar) -> Any:
        """The better of both in each lane, with the place where its vector begins."""
        new = Found(values, kl.splat(kl.cast(r, self.place), self.lanes))
        return kl.where(values > best.value if self.largest else values < best.value, new, best)

    def put(self, outs: tuple[kl.Array, ...], section: Any, best: Found) -> None:
        """Writes a value and its position."""
        outs[0][*section.outer, section.number] = best.value
        outs[1][*section.outer, section.number] = kl.cast(best.place, kl.i64)

    # -- of columns -----------------------------------------------------------------------------

    @property
    def held(self) -> Any:
        """The types of values and positions."""
        return (self.kind, self.place)

    def started(self, line: Line, r: kl.Scalar) -> Any:
        """The elements at `r`, and their position."""
        value = kl.vload(line.x, *line.outer, r, lanes=self.lanes, axis=line.x.ndim - 2)
        return value, kl.splat(kl.cast(r, self.place), self.lanes)

    def further(self, line: Line, r: kl.Scalar, done: kl.Scalar, totals: Any, COUNT: int) -> Any:
        """The best of these and of `COUNT` elements along the last axis."""
        best = Found(*totals)
        for k in kl.static_range(COUNT):
            new = Found(*self.started(line, r + k))
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

    def of_section(self, arrays: Any, section: Any, WIDTH: int) -> Any:
        """The best of a section."""
        line, start, jump = Line(arrays[0], section.outer), section.first, CHAINS * self.lanes
        best = line.x[*line.outer, start]
        for block in range(start, section.stop, self.block):
            end = kl.minimum(block + self.block, section.stop)
            value = self.merge.along(line, block, end, jump, 1, CHAINS, 0)
            if wins(value, best, self.largest):
                best = value
                start = block
        here = section.stop - start <= 4 * jump
        while not here:
            end = kl.minimum(start + 4 * jump, section.stop)
            here = same(self.merge.along(line, start, end, jump, 1, CHAINS, 0), best)
            start = kl.where(here, start, start + 4 * jump)
        if self.lanes > 1:
            wanted = kl.splat(best, self.lanes)
            full = section.stop - (self.lanes - 1)
            here = start >= full
            while not here:
                here = kl.count(same(self.merge.read(line, start), wanted)) > 0
                start = kl.where(here, start, start + self.lanes)
                here = here | (start >= full)
        while not same(line.x[*line.outer, start], best):
            start = start + 1
        return Found(best, kl.cast(start, self.place))


# Least and greatest elements along an axis: how the work is cut, and launched.

_BLOCK: Final = 8192
_LONG: Final = 64
"""Elements of a column from which on making it a row pays, and finding its best value first."""
_WIDE: Final = 4
"""Bytes of elements from which on rows are not gone through in blocks."""


def best_along_last(recipe: Recipe, x: Any, largest: bool) -> Any:
    """The positions along the last axis of the least or greatest elements; the first of equals.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    x : Storage
        An array of it, not empty.
    largest : bool
        Whether the greatest are looked for.
    """
    kind = int32 if x.shape[-1] < 2**31 else int64
    x, _ = axis.grouped(x, list(range(x.ndim - 1)), [x.ndim - 1])
    if _pays_to_turn(x):
        x = _turned(recipe, x)
    if axis.lies_crosswise(x):
        values, places = _columns(recipe, x, largest, kind)
    else:
        values, places = _by_workgroup(recipe, x, None, largest, kind)
    while places.shape[-1] > 1:
        values, places = _by_workgroup(recipe, values, places, largest, kind)
    return places.viewed(places.shape[:-1], places.strides[:-1])


def _pays_to_turn(x: Any) -> bool:
    """Whether columns are first made rows: for work-items alone, where columns make no vectors."""
    alone = x.device.capabilities.single_work_items and x.shape[-1] >= _LONG
    return alone and axis.lies_crosswise(x) and axis.lanes_for(x, int32, -2) == 1


def _turned(recipe: Recipe, x: Any) -> Any:
    """A copy whose neighbours lie along the last axis."""
    return recorded(recipe, conversion_to(x.dtype), x)


def _new(recipe: Recipe, x: Any, sections: int) -> tuple[Any, Any]:
    """Arrays for the best value of each section, and its position."""
    shape = (*x.shape[:-1], sections)
    return recipe.empty(shape, x.dtype), recipe.empty(shape, int64)


def _by_workgroup(
    recipe: Recipe, x: Any, places: Any, largest: bool, kind_given: DType
) -> tuple[Any, Any]:
    kind, alone = x.dtype.register, x.device.capabilities.single_work_items
    in_blocks = alone and places is None and x.shape[-1] >= _LONG and x.dtype.itemsize < _WIDE
    lanes = axis.lanes_for(x, x.dtype if in_blocks else kind_given, -1) if places is None else 1
    how = axis.cut(x, lanes)
    best = _new(recipe, x, how.sections)
    fold = Best(largest, kind, kind_given, lanes)
    if in_blocks:
        op, neutral = (kl.maximum, lowest) if largest else (kl.minimum, highest)
        merge = Merge(op, kind, neutral(x.dtype), lanes=lanes)
        fold = BestOfBlocks(largest, kind, kind_given, lanes, merge, _BLOCK)
    axis.launch_by_workgroup(recipe, (x, places), best, fold, how)
    return best


def _columns(recipe: Recipe, x: Any, largest: bool, kind: DType) -> tuple[Any, Any]:
    lanes = axis.lanes_for(x, kind, -2, meet=True)
    cut = axis.column_strips(x, lanes, best_for(x.device.capabilities))
    best = _new(recipe, x, cut.sections)
    cut.launch(recipe, x, best, Best(largest, x.dtype.register, kind, lanes))
    return best


# Variances along an axis in one read: how the axis is cut into sections, and launched.
#
# The floor is reading once: through NVIDIA's OpenCL an H200 was at 0.87 to 0.95 of its copy's
# speed, counting bytes read of 2^26 `float32`.

_GROUP: Final = 256


def variance(recipe: Recipe, x: Any, kind: DType, divisor: Any, root: bool) -> Any:
    """Variances along the last axis, or deviations if `root`, computed in `kind`.

    One dimension, in C order of the other axes.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    x : Storage
        An array of it, not empty.
    kind : DType
        In which to compute.
    divisor : number
        What squared deviations are divided by.
    root : bool
        Whether deviations are wanted.
    """
    position = int32 if x.shape[-1] < 2**31 else int64
    out = recipe.empty((*x.shape[:-1], 1), x.dtype)
    crosswise = axis.lies_crosswise(x)
    merge = Merge(
        kl.add, kind, 0, lanes=axis.lanes_for(x, kind, -2 if crosswise else -1, meet=True)
    )
    how, arrays = axis.cut(x, merge.lanes, rounds=True), (x,)
    fold = Spread(merge, position, root)
    if crosswise or how.sections > 1:
        *moments, section = _of_sections(recipe, x, fold)
        how, arrays = _whole(moments[0]), (*moments, np.int64(x.shape[-1]))
        fold = SpreadOfParts(merge, position, root, section)
    axis.launch_by_workgroup(recipe, arrays, (None, out, divisor), fold, how)
    return out.shaped((out.size,))


def _of_sections(recipe: Recipe, x: Any, fold: Spread) -> tuple[Any, Any, int]:
    """Means and squared deviations of sections of the last axis, and how long these are."""
    if axis.lies_crosswise(x):
        columns = axis.column_strips(x, fold.lanes, moments_for(x.device.capabilities))
        made = _two_empty(recipe, x, columns.sections, fold)
        columns.launch(recipe, x, made, fold)
        return *made, columns.section
    how = axis.cut(x, fold.lanes, rounds=True)
    made = _two_empty(recipe, x, how.sections, fold)
    axis.launch_by_workgroup(recipe, (x,), (*made, None), fold, how)
    return *made, how.section


def _two_empty(recipe: Recipe, x: Any, sections: int, fold: Spread) -> tuple[Any, Any]:
    shape, kind = (*x.shape[:-1], sections), fold.merge.kind
    return recipe.empty(shape, kind), recipe.empty(shape, kind)


def _whole(x: Any) -> axis.Cut:
    """Rows in one section each, whatever their length."""
    capabilities = x.device.capabilities
    rows, length = prod(x.shape[:-1]), x.shape[-1]
    group = 1 if capabilities.single_work_items else min(_GROUP, capabilities.max_workgroup)
    width = min(group, power_of_two(length))
    tall = group // width
    return axis.Cut(width, tall, power_of_two(length), 1, -(-rows // tall))
