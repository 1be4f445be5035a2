"""Sums over neighbours instead of atomic additions.

Where all work-items read an array at their own place moved by constants, as stencils do, an
element's adjoint is the sum over these moves of what the work-item at the place moved back would
add. So each element's work-item works that out by itself: more arithmetic, no atomic addition, and
the same order of summation in each run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from portable.dtypes import DType, uint32, uint64
from portable.errors import Location
from portable.gradients.adjoint.own_elements import linear, resolved_index, values_of
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir import walks
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array, Vector

_MOST_MOVES: Final = 9
_MOST_STATEMENTS: Final = 120
"""Of a kernel whose work is done again for each move."""


@dataclass(frozen=True)
class Moved:
    """How an array is read: at the place of the work-item, moved.

    Attributes
    ----------
    array : Array
    dims : tuple of int
        Which dimension of the ndrange each index is.
    moves : tuple of tuple of int
        By how much it is moved along each dimension of the ndrange.
    loads : dict
        The number of the move by the identity of each load.
    """

    array: Array
    dims: tuple[int, ...]
    moves: tuple[tuple[int, ...], ...]
    loads: dict[int, int]

    def point(self, kind: DType) -> tuple[e.Expression, ...]:
        """The index of the element at the work-item's place."""
        return tuple(e.WorkItem("global_id", dim, kind) for dim in self.dims)


def gatherable(program: Kernel, arrays: Sequence[Array], dims: int) -> list[Moved]:
    """Those arrays of a flat program that are read so, and are not written.

    Parameters
    ----------
    program : Kernel
    arrays : sequence of Array
        Those with gradients.
    dims : int
        How many dimensions the ndrange has.
    """
    statements = list(walks.all_statements(program.body))
    places = {x.word for x in walks.all_expressions(program.body) if isinstance(x, e.WorkItem)}
    together = any(x.together() != "work_item" for x in statements)
    shared = any(x.space == "local" for x in program.arrays)
    if together or shared or not places <= {"global_id", "global_size"}:
        return []
    if len(statements) > _MOST_STATEMENTS or any(isinstance(x, s.Atomic) for x in statements):
        return []
    written = program.written
    read = {x.array for x in statements if isinstance(x, s.Load)}
    if any(x in read and x in written for x in program.parameters):
        return []
    moved = [_moved(program, x, max(dims, program.dimensions)) for x in arrays if x not in written]
    return [x for x in moved if x is not None]


def _moved(program: Kernel, array: Array, dims: int) -> Moved | None:
    values = values_of(program)
    order: tuple[int, ...] | None = None
    moves: list[tuple[int, ...]] = []
    loads: dict[int, int] = {}
    for x in walks.all_statements(program.body):
        if not isinstance(x, s.Load) or x.array is not array:
            continue
        parts = [_part(i) for i in resolved_index(x.index, values)]
        known = [p for p in parts if p is not None]
        dims_here = tuple(dim for dim, _ in known)
        plain = x.component is None and not isinstance(x.var.type, Vector) and not x.runs_on
        if len(known) < len(parts) or not plain or sorted(dims_here) != list(range(dims)):
            return None
        if order is not None and dims_here != order:
            return None
        order = dims_here
        by = dict(known)
        move = tuple(by[dim] for dim in range(dims))
        if move not in moves:
            moves.append(move)
        loads[id(x)] = moves.index(move)
    if order is None or not 1 < len(moves) <= _MOST_MOVES:
        return None
    return Moved(array, order, tuple(moves), loads)


def _part(x: e.Expression) -> tuple[int, int] | None:
    """The dimension of the global id that an index is, and by how much it is moved."""
    terms = linear(x) or {}
    by = terms.pop(None, 0)
    for term, factor in terms.items():
        if len(terms) == 1 and factor == 1 and isinstance(term, tuple) and term[0] == "global_id":
            return term[1], by
    return None


def moved_back(
    body: s.Block, places: Sequence[e.Expression], sizes: Sequence[e.Expression]
) -> s.Block:
    """A body as the work-item at other places, in an ndrange of other sizes, would run it."""

    def other(x: e.Expression) -> e.Expression:
        if not isinstance(x, e.WorkItem):
            return x
        return places[x.dim] if x.word == "global_id" else sizes[x.dim]

    def change(x: s.Statement) -> s.Block:
        return (walks.map_operands(x, lambda y: walks.map_expression(y, other)),)

    return walks.map_block(body, change)


def within(places: Sequence[e.Expression], sizes: Sequence[e.Expression]) -> e.Expression:
    """Whether a place is in an ndrange; what lies before it is great as an unsigned number."""
    parts: list[e.Expression] = []
    for index, size in zip(places, sizes, strict=True):
        assert isinstance(index.type, DType)
        unsigned = uint32 if index.type.itemsize == 4 else uint64
        known = isinstance(index, e.WorkItem)
        here, end = (x if known else e.Cast(x, unsigned) for x in (index, size))
        parts.append(e.Compare("lt", here, end))
    return reduce(lambda x, y: e.Binary("and", x, y), parts)


def conditional(condition: e.Expression, body: s.Block, loc: Location) -> s.Block:
    """A body under a condition, which joins that of the body where this is all that it does."""
    lets, last = body[:-1], body[-1] if body else None
    simple = all(isinstance(x, s.Let) and not _divides(x.value) for x in lets)
    if simple and isinstance(last, s.If) and not last.orelse:
        both = e.Binary("and", condition, last.condition)
        return (*lets, s.If(both, last.then, (), last.loc))
    return (s.If(condition, body, (), loc),)


def _divides(x: e.Expression) -> bool:
    return any(
        isinstance(y, e.Binary) and y.op in ("floordiv", "mod", "div")
        for y in walks.subexpressions(x)
    )
