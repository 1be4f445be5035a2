"""What is kept for the way back: a stack of numbers for each work-item, in global memory.

There is one for each type. Neighbouring work-items' numbers of the same depth lie side by side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from portable.dtypes import DType, bool_, int32
from portable.errors import Location
from portable.gradients.adjoint.names import Names, refuse
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array

__all__ = ["Stack"]


class Stack:
    """The stacks of an adjoint.

    Parameters
    ----------
    kernel : Kernel
    names : Names

    Attributes
    ----------
    arrays : dict
        By their type: of shape (depth, work-items).
    cells : list of Variable
        How high they are.
    """

    def __init__(self, kernel: Kernel, names: Names) -> None:
        self.arrays: dict[DType, Array] = {}
        self.cells: list[e.Variable] = []
        self._names: Final = names
        self._index: Final = kernel.index_type
        self._heights: dict[DType, e.Variable] = {}
        self._peaks: dict[DType, e.Variable] = {}

    # -- use -------------------------------------------------------------------------------

    def push(self, cells: Sequence[e.Variable], loc: Location) -> s.Block:
        """Keeps the values of variables."""
        out: list[s.Statement] = []
        for cell in cells:
            kind = _kept_as(cell, loc)
            height, array = self._of(kind)
            value = cell if kind is cell.type else e.Cast(cell, kind)
            out.append(s.Store(array, (height, self._item()), value, loc))
            out.append(s.Assign(height, e.Binary("add", height, self._number(1)), loc))
        return tuple(out)

    def pop(self, cells: Sequence[e.Variable], loc: Location) -> s.Block:
        """Gives variables their values back, the last one first."""
        out: list[s.Statement] = []
        for cell in reversed(cells):
            kind = _kept_as(cell, loc)
            height, array = self._of(kind)
            out.append(s.Assign(height, e.Binary("sub", height, self._number(1)), loc))
            kept = self._names.variable("kept", kind)
            out.append(s.Load(kept, array, (height, self._item()), loc))
            value = kept if kind is cell.type else e.Cast(kept, cell.type)
            out.append(s.Assign(cell, value, loc))
        return tuple(out)

    def empty(self, loc: Location) -> s.Block:
        """How they begin."""
        return tuple(s.Assign(x, self._number(0), loc) for x in self._heights.values())

    # -- size ------------------------------------------------------------------------------

    def measured(self, cells: Sequence[e.Variable], inner: s.Block, loc: Location) -> s.Block:
        """A round that keeps nothing and finds how high the stacks would be in it."""
        out: list[s.Statement] = []
        for kind, count in Counter(_kept_as(x, loc) for x in cells).items():
            height = self._of(kind)[0]
            out.append(s.Assign(height, e.Binary("add", height, self._number(count)), loc))
        back: list[s.Statement] = []
        for kind, height in self._heights.items():
            peak = self._peak(kind)
            out.append(s.Assign(peak, e.Binary("max", peak, height), loc))
            before = self._names.variable("height", self._index)
            out.append(s.Let(before, height, loc))
            back.append(s.Assign(height, before, loc))
        return (*out, *inner, *back)

    def begun(self, loc: Location) -> s.Block:
        """How a measurement begins."""
        cells = (*self._heights.values(), *(self._peak(kind) for kind in self._heights))
        return tuple(s.Assign(x, self._number(0), loc) for x in cells)

    def reported(self, counts: Array, loc: Location) -> s.Block:
        """Tells the greatest heights, in the order of `arrays`."""
        out: list[s.Statement] = []
        for i, kind in enumerate(self.arrays):
            peak = e.Cast(self._peak(kind), int32) if self._index is not int32 else self._peak(kind)
            index = (e.Const(i, self._index),)
            out.append(
                s.Atomic(None, "max", counts, index, peak, None, "relaxed", "device", loc)
            )
        return tuple(out)

    # -- parts -----------------------------------------------------------------------------

    def _of(self, kind: DType) -> tuple[e.Variable, Array]:
        if kind not in self.arrays:
            height = self._names.variable("height", self._index)
            self._heights[kind] = height
            self.cells.append(height)
            strides = ("any", "unit")
            name = self._names.fresh("kept")
            self.arrays[kind] = Array(name, kind, "global", 2, strides=strides, restrict=True)
        return self._heights[kind], self.arrays[kind]

    def _peak(self, kind: DType) -> e.Variable:
        if kind not in self._peaks:
            self._peaks[kind] = self._names.variable("peak", self._index)
            self.cells.append(self._peaks[kind])
        return self._peaks[kind]

    def _number(self, value: int) -> e.Expression:
        return e.Const(value, self._index)

    def _item(self) -> e.Expression:
        """The number of this work-item in the ndrange."""
        total: e.Expression | None = None
        for dim in (2, 1, 0):
            own = e.WorkItem("global_id", dim, self._index)
            if total is not None:
                size = e.WorkItem("global_size", dim, self._index)
                total = e.Binary("add", e.Binary("mul", total, size), own)
            else:
                total = own
        assert total is not None
        return total


def _kept_as(cell: e.Variable, loc: Location) -> DType:
    if not isinstance(cell.type, DType):
        refuse(
            "of a vector that one round of a loop hands to the next and that is not only added to",
            loc,
            "keep numbers, or give the kernel an adjoint of your own by portable.custom_vjp",
        )
    return int32 if cell.type is bool_ else cell.type
