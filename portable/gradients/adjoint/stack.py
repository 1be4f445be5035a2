"""What is kept for the way back: a stack of numbers for each work-item, in global memory.

There is one for each type. Neighbouring work-items' numbers of the same depth lie side by side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from portable.dtypes import DType, bool_, int32
from portable.errors import Location
from portable.gradients.adjoint.names import Names
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.nodes import cast
from portable.lang.ir.types import Array, Vector, lanes_of, scalar_of


class Stack:
    """The stacks of an adjoint.

    Parameters
    ----------
    kernel : Kernel
    names : Names
    dims : int
        How many dimensions the ndrange has.

    Attributes
    ----------
    arrays : list of Array
        Of shape (depth, work-items).
    cells : list of Variable
        How high they are.
    """

    def __init__(self, kernel: Kernel, names: Names, dims: int) -> None:
        self.arrays: list[Array] = []
        self.cells: list[e.Variable] = []
        self._names: Final = names
        self._index: Final = kernel.index_type
        self._dims: Final = max(dims, kernel.dimensions)
        self._stacks: dict[DType, Array] = {}
        self._logs: list[tuple[Array, e.Variable]] = []
        self._heights: dict[DType, e.Variable] = {}
        self._peaks: dict[DType, e.Variable] = {}

    # -- use -------------------------------------------------------------------------------

    def push(self, cells: Sequence[e.Variable], loc: Location) -> s.Block:
        """Keeps the values of variables."""
        out: list[s.Statement] = []
        for cell in cells:
            kind = _kept_as(cell)
            height, array = self._of(kind)
            count = lanes_of(cell.type)
            for value in [e.Lane(cell, k) for k in range(count)] if count > 1 else [cell]:
                out.append(s.Store(array, (height, self.item()), cast(value, kind), loc))
                out.append(s.Assign(height, e.Binary("add", height, self._number(1)), loc))
        return tuple(out)

    def pop(self, cells: Sequence[e.Variable], loc: Location) -> s.Block:
        """Gives variables their values back, the last one first."""
        out: list[s.Statement] = []
        for cell in reversed(cells):
            kind = _kept_as(cell)
            height, array = self._of(kind)
            lanes: list[e.Expression] = []
            for _ in range(lanes_of(cell.type)):
                out.append(s.Assign(height, e.Binary("sub", height, self._number(1)), loc))
                kept = self._names.variable("kept", kind)
                out.append(s.Load(kept, array, (height, self.item()), loc))
                lanes.insert(0, cast(kept, scalar_of(cell.type)))
            kept_one = lanes[0]
            if isinstance(cell.type, Vector):
                kept_one = e.MakeVector(tuple(lanes), cell.type)
            out.append(s.Assign(cell, kept_one, loc))
        return tuple(out)

    def empty(self, loc: Location) -> s.Block:
        """How they begin."""
        return tuple(s.Assign(x, self._number(0), loc) for x in self._heights.values())

    # -- size ------------------------------------------------------------------------------

    def measured(self, cells: Sequence[e.Variable], inner: s.Block, loc: Location) -> s.Block:
        """A round that keeps nothing and finds how high the stacks would be in it."""
        out: list[s.Statement] = []
        counts: Counter[DType] = Counter()
        for x in cells:
            counts[_kept_as(x)] += lanes_of(x.type)
        for kind, count in counts.items():
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
        heights = {self._stacks[kind].name: self._peak(kind) for kind in self._stacks}
        heights |= {array.name: cursor for array, cursor in self._logs}
        out: list[s.Statement] = []
        for i, array in enumerate(self.arrays):
            index = (e.Const(i, self._index),)
            peak = cast(heights[array.name], int32)
            out.append(s.Atomic(None, "max", counts, index, peak, None, "relaxed", "device", loc))
        return tuple(out)

    # -- loads -----------------------------------------------------------------------------

    def log(self, name: str, kind: Any, cursor: e.Variable) -> Array:
        """An array for what a load found each time, as far as a variable counts.

        Parameters
        ----------
        name : str
            Of the array that is loaded from.
        kind : DType
            What the load binds.
        cursor : Variable
            Of the program.
        """
        array = self._array(f"{name}_found", kind)
        self._logs.append((array, cursor))
        return array

    def at(self, cursor: e.Expression) -> tuple[e.Expression, ...]:
        """The index of this work-item's entry."""
        return cursor, self.item()

    def _array(self, name: str, kind: DType) -> Array:
        made = Array(
            self._names.fresh(name), kind, "global", 2, strides=("any", "unit"), restrict=True
        )
        self.arrays.append(made)
        return made

    # -- parts -----------------------------------------------------------------------------

    def _of(self, kind: DType) -> tuple[e.Variable, Array]:
        if kind not in self._stacks:
            height = self._names.variable("height", self._index)
            self._heights[kind] = height
            self.cells.append(height)
            self._stacks[kind] = self._array("kept", kind)
        return self._heights[kind], self._stacks[kind]

    def _peak(self, kind: DType) -> e.Variable:
        if kind not in self._peaks:
            self._peaks[kind] = self._names.variable("peak", self._index)
            self.cells.append(self._peaks[kind])
        return self._peaks[kind]

    def _number(self, value: int) -> e.Expression:
        return e.Const(value, self._index)

    def item(self) -> e.Expression:
        """The number of this work-item in the ndrange."""
        total: e.Expression | None = None
        for dim in reversed(range(self._dims)):
            number = e.WorkItem("global_id", dim, self._index)
            if total is not None:
                size = e.WorkItem("global_size", dim, self._index)
                total = e.Binary("add", e.Binary("mul", total, size), number)
            else:
                total = number
        assert total is not None
        return total


def _kept_as(cell: e.Variable) -> DType:
    """The type of what is kept of a variable, of a vector lane by lane."""
    scalar = scalar_of(cell.type)
    return int32 if scalar is bool_ else scalar
