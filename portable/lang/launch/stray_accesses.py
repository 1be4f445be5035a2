"""Finds accesses at global ids that work-items beyond the ndrange would make outside an array.

Kernels whose work-items meet are launched in whole workgroups. What is found here is an index
that is a global id as it stands, which nothing before or around it has compared with anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from portable.errors import Location
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.pipeline import Pipeline
from portable.lang.ir.types import Array
from portable.lang.ir.walks import all_statements, holds, operands, subexpressions


class Stray(NamedTuple):
    """An access to a global array at a global id that nothing limits.

    Attributes
    ----------
    array : Array
        A parameter.
    axis : int
        The dimension of the array.
    dim : int
        That of the ndrange.
    always : bool
        Whether every work-item makes it, whatever the arguments are.
    loc : Location
        Where.
    """

    array: Array
    axis: int
    dim: int
    always: bool
    loc: Location


def strays(kernel: Kernel) -> tuple[Stray, ...]:
    """The accesses of a kernel to global arrays at global ids that nothing limits."""
    walk = _Walk()
    walk.block(kernel.body, frozenset())
    return tuple(walk.found)


def meeting_place(kernel: Kernel) -> Location:
    """Where the work-items of a kernel that is not exact first meet; else where it begins."""
    met = (x.loc for x in all_statements(kernel.body) if x.together() != "work_item")
    return next(met, kernel.loc)


_PLACES: Final = frozenset({"global_id", "group_id", "local_id"})


@dataclass
class _Walk:
    """One walk through a kernel.

    Attributes
    ----------
    ids : dict
        The dimension of variables that are a global id, by name.
    made_of : dict
        The dimensions of work-items' places that variables are worked out from, by name.
    found : list of Stray
    always : bool
        Whether every work-item comes to the present statement, whatever the arguments are.
    """

    ids: dict[str, int] = field(default_factory=dict)
    made_of: dict[str, frozenset[int]] = field(default_factory=dict)
    found: list[Stray] = field(default_factory=list)
    always: bool = True

    def block(self, block: s.Block, limited: frozenset[int]) -> frozenset[int]:
        """Walks through a block; the dimensions whose ids are limited before it, and after it."""
        for statement in block:
            limited = self._statement(statement, limited)
        return limited

    def _statement(self, x: s.Statement, limited: frozenset[int]) -> frozenset[int]:
        if isinstance(x, s.Let | s.Assign):
            self._learn(x)
        if isinstance(x, s.Load | s.Store | s.Atomic):
            self._access(x, limited)
        inner = limited
        if isinstance(x, s.If | s.For | Pipeline):
            inner |= self._dims(*operands(x))
        after, always = limited, self.always
        for block in x.blocks():
            self.always = False
            within = self.block(block, inner)
            if holds(block, s.Return | s.Break | s.Continue):
                after, always = after | within, False
        self.always = always
        return after

    def _learn(self, x: s.Let | s.Assign) -> None:
        name, dims = x.var.name, self._dims(x.value)
        self.made_of[name] = self.made_of.get(name, frozenset()) | dims
        dim = self._id(x.value)
        if dim is not None and isinstance(x, s.Let):
            self.ids[name] = dim

    def _access(self, x: s.Load | s.Store | s.Atomic, limited: frozenset[int]) -> None:
        if x.array.space != "global":
            return
        for axis, index in enumerate(x.index):
            dim = self._id(index)
            if dim is not None and dim not in limited:
                self.found.append(Stray(x.array, axis, dim, self.always, x.loc))

    def _id(self, x: e.Expression) -> int | None:
        """The dimension of an expression that is a global id."""
        match x:
            case e.WorkItem(word="global_id", dim=dim):
                return dim
            case e.Variable(name=name):
                return self.ids.get(name)
            case e.Cast():
                return self._id(x.x)
            case _:
                return None

    def _dims(self, *values: e.Expression) -> frozenset[int]:
        """The dimensions along which values are worked out from a work-item's place."""
        dims: set[int] = set()
        for value in values:
            for x in subexpressions(value):
                if isinstance(x, e.Variable):
                    dims |= self.made_of.get(x.name, frozenset())
                elif isinstance(x, e.WorkItem) and x.word in _PLACES:
                    dims.add(x.dim)
        return frozenset(dims)
