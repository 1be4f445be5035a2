"""What reductions and scans do to elements: how two totals become one, a constant of kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from portable import lang as kl
from portable.lang.function import function

__all__ = ["Merge", "folded", "read"]


@function
def read(x: Any, outer: Any, r: Any, lanes: Any, axis: Any, kind: Any) -> Any:
    """`lanes` elements along an axis, at `r` of the last one, in a type."""
    return kl.cast(kl.vload(x, *outer, r, lanes=lanes, axis=axis), kind)


@function
def folded(value: Any, lanes: Any, op: Any) -> Any:
    """The lanes of a vector merged by halves."""
    items = [value[lane] for lane in kl.static_range(lanes)]
    width = lanes
    for _ in kl.static_range(4):
        if width > 1:
            width = width // 2
            items = [op(items[lane], items[lane + width]) for lane in kl.static_range(width)]
    return items[0]


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

    @function
    def __call__(self, x: Any, y: Any) -> Any:
        """What two totals come to."""
        return self.op(x, y)

    @function
    def nothing(self) -> Any:
        """The total of nothing."""
        return kl.cast(self.initial, self.kind)

    @function
    def spread(self, value: Any) -> Any:
        """A number in every lane."""
        return kl.splat(value, self.lanes)

    @function
    def one(self, x: Any, outer: Any, r: Any) -> Any:
        """The element at `r` of a row, as a total."""
        value = x[*outer, r]
        return kl.cast(value if self.first is None else self.first(value), self.kind)

    @function
    def read(self, x: Any, outer: Any, r: Any, axis: Any = -1) -> Any:
        """The elements in a work-item's lanes, which lie along an axis, as totals."""
        values = kl.vload(x, *outer, r, lanes=self.lanes, axis=axis)
        return kl.cast(values if self.first is None else self.first(values), self.kind)

    @function
    def folded(self, values: Any) -> Any:
        """What the lanes come to."""
        return folded(values, self.lanes, self.op)
