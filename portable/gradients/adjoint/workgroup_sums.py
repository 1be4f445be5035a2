"""What a workgroup works out together, sums and extremes, written out for the device.

Each sub-group combines its own values and leaves the result in local memory, and every sub-group
combines these results for itself. Where there are no sub-groups, or not all have as many work-items
as there are results, the first work-item combines them for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

from portable.dtypes import DType
from portable.gradients.adjoint.names import Names, zero
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir import walks
from portable.lang.ir.kernel import Kernel, linear_local_id, sub_group_id, sub_group_local_id
from portable.lang.ir.types import Array, Layout, ValueType

_Pairs = Sequence[tuple[s.WorkgroupReduce, Array]]
"""Reductions, and the local memory of each."""

_IN_SUB_GROUPS: Final[dict[str, s.SubGroupOp]] = {
    "add": "reduce_add",
    "min": "reduce_min",
    "max": "reduce_max",
}


def written_out(kernel: Kernel, names: Names) -> Kernel:
    """The kernel without `WorkgroupReduce`."""
    options = replace(kernel.options, whole_reductions=False)
    if not any(isinstance(x, s.WorkgroupReduce) for x in walks.all_statements(kernel.body)):
        return replace(kernel, options=options)
    made = _Reductions(kernel, names)
    body = made.block(kernel.body)
    return replace(kernel, options=options, body=body, arrays=(*kernel.arrays, *made.rooms()))


_AT_ONCE: Final = 16
"""Numbers that a vector of a processor may hold."""

_MOST_TOGETHER: Final = 1 << 14
"""Bytes of local memory for reductions that are done together."""


class _Reductions:
    """Writes them out, those that follow each other together; all share pieces of local memory."""

    def __init__(self, kernel: Kernel, names: Names) -> None:
        self._names = names
        self._kind = kernel.index_type
        self._width = kernel.sub_group_size
        self._items = prod(kernel.workgroup)
        self._parts = -(-self._items // self._width)
        self._item = linear_local_id(kernel.workgroup, kernel.index_type)
        self._part, self._lane = self._item, zero(kernel.index_type)
        if self._width > 1:
            self._part = sub_group_id(kernel, kernel.index_type)
            self._lane = sub_group_local_id(kernel, kernel.index_type)
        self._rooms: dict[tuple[DType, int], Array] = {}

    def rooms(self) -> tuple[Array, ...]:
        """The local memory."""
        return tuple(self._rooms.values())

    def block(self, body: s.Block) -> s.Block:
        """What a block becomes."""
        out: list[s.Statement] = []
        waiting: list[s.WorkgroupReduce] = []
        for x in body:
            if not isinstance(x, s.WorkgroupReduce):
                out += (*self._together(waiting), walks.map_blocks(x, self.block))
                waiting = []
                continue
            bound = {y.var.name for y in waiting}
            most = _MOST_TOGETHER // (self._parts * 8)
            if len(waiting) >= most or not walks.names_in(x.value).isdisjoint(bound):
                out += self._together(waiting)
                waiting = []
            waiting.append(x)
        return (*out, *self._together(waiting))

    def _together(self, given: Sequence[s.WorkgroupReduce]) -> s.Block:
        if not given or self._items == 1:
            return tuple(s.Let(x.var, x.value, x.loc) for x in given)
        if self._parts == 1:
            return tuple(self._of_sub_group(x, x.var, x.value) for x in given)
        out: list[s.Statement] = []
        loc, stores = given[0].loc, list[s.Statement]()
        rooms = [self._room(x.var.type, number) for number, x in enumerate(given)]
        for x, room in zip(given, rooms, strict=True):
            value = x.value
            if self._width > 1:
                value = self._names.variable("part", x.var.type)
                out.append(self._of_sub_group(x, value, x.value))
            stores.append(s.Store(room, (self._part,), value, x.loc))
        if self._width > 1:
            first = e.Compare("eq", self._lane, zero(self._kind))
            stores = [s.If(first, tuple(stores), (), loc)]
        each = self._width > 1 and self._items % self._width == 0 and self._parts <= self._width
        finish = self._by_each if each else self._by_first
        pairs = tuple(zip(given, rooms, strict=True))
        return (*out, s.Barrier(loc), *stores, s.Barrier(loc), *finish(pairs))

    def _room(self, kind: ValueType, number: int) -> Array:
        assert isinstance(kind, DType)
        room = self._rooms.get((kind, number))
        if room is None:
            shape = (self._parts,)
            name = self._names.fresh(f"parts_{kind.short}")
            room = Array(name, kind, "local", 1, shape, Layout.row_major(shape))
            self._rooms[kind, number] = room
        return room

    def _of_sub_group(
        self, x: s.WorkgroupReduce, var: e.Variable, value: e.Expression
    ) -> s.Statement:
        return s.SubGroup(var, _IN_SUB_GROUPS[x.op], value, None, x.loc)

    def _by_each(self, pairs: _Pairs) -> s.Block:
        """Every sub-group combines the parts; lanes beyond have the last one, or nought of sums."""
        last, parts = (e.Const(n, self._kind) for n in (self._parts - 1, self._parts))
        out: list[s.Statement] = []
        for x, room in pairs:
            held = self._names.variable("held", x.var.type)
            out.append(s.Load(held, room, (e.Binary("min", self._lane, last),), x.loc))
            value: e.Expression = held
            if x.op == "add":
                value = e.Select(e.Compare("lt", self._lane, parts), held, zero(held.type))
            out.append(self._of_sub_group(x, x.var, value))
        return tuple(out)

    def _by_first(self, pairs: _Pairs) -> s.Block:
        """The first work-item leaves results where its own parts were; processors do some at once.

        Parts that lie so far apart are combined first, then what is left of them.
        """
        nought, loc = zero(self._kind), pairs[0][0].loc
        apart = _AT_ONCE if self._parts % _AT_ONCE == 0 else 1
        first, lane = (self._names.variable("number", self._kind) for _ in range(2))
        far = self._combined(pairs, lane, e.Binary("add", first, lane))
        rest = self._names.variable("number", self._kind)
        loops: s.Block = (
            self._loop(first, apart, self._parts, (self._loop(lane, 0, apart, far),), step=apart),
            self._loop(rest, 1, apart, self._combined(pairs, nought, rest)),
        )
        return (
            s.If(e.Compare("eq", self._item, nought), loops, (), loc),
            s.Barrier(loc),
            *(s.Load(x.var, room, (nought,), x.loc) for x, room in pairs),
        )

    def _combined(self, pairs: _Pairs, to: e.Expression, more: e.Expression) -> s.Block:
        """Combines parts with other ones, where the first are."""
        out: list[s.Statement] = []
        for x, room in pairs:
            low, high = (self._names.variable("held", x.var.type) for _ in range(2))
            out += (
                s.Load(low, room, (to,), x.loc),
                s.Load(high, room, (more,), x.loc),
                s.Store(room, (to,), e.Binary(x.op, low, high), x.loc),
            )
        return tuple(out)

    def _loop(
        self, var: e.Variable, start: int, stop: int, body: s.Block, *, step: int = 1
    ) -> s.Statement:
        first, last, by = (e.Const(n, self._kind) for n in (start, stop, step))
        return s.For(var, first, last, by, body, body[0].loc, 1 if step > 1 or start else 0)
