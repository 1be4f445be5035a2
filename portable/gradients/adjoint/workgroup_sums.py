"""What a workgroup works out together, sums and extremes, written out for the device.

Each sub-group combines its own values and leaves the result in local memory, and every sub-group
combines these results for itself. Where there are no sub-groups, or not all have as many work-items
as there are results, the first work-item combines them for all.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Final

from portable.dtypes import DType
from portable.gradients.adjoint.names import Names, zero
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import (
    Kernel,
    all_statements,
    linear_local_id,
    map_block,
    sub_group_id,
    sub_group_local_id,
)
from portable.lang.ir.types import Array, Layout, ValueType

_IN_SUB_GROUPS: Final[dict[str, s.SubGroupOp]] = {
    "add": "reduce_add",
    "min": "reduce_min",
    "max": "reduce_max",
}


def written_out(kernel: Kernel, names: Names) -> Kernel:
    """The kernel without `WorkgroupReduce`."""
    options = replace(kernel.options, whole_reductions=False)
    if not any(isinstance(x, s.WorkgroupReduce) for x in all_statements(kernel.body)):
        return replace(kernel, options=options)
    made = _Reductions(kernel, names)
    body = map_block(kernel.body, made.statement)
    return replace(kernel, options=options, body=body, arrays=(*kernel.arrays, *made.rooms()))


_AT_ONCE: Final = 16
"""Numbers that a vector of a processor may hold."""


class _Reductions:
    """Writes them out; those of one type share a piece of local memory."""

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
        self._rooms: dict[DType, Array] = {}

    def rooms(self) -> tuple[Array, ...]:
        """The local memory."""
        return tuple(self._rooms.values())

    def statement(self, x: s.Statement) -> s.Block:
        """What a statement becomes."""
        if not isinstance(x, s.WorkgroupReduce):
            return (x,)
        if self._items == 1:
            return (s.Let(x.var, x.value, x.loc),)
        if self._parts == 1:
            return self._of_sub_group(x, x.var, x.value)
        out: list[s.Statement] = []
        value = x.value
        if self._width > 1:
            value = self._names.variable("part", x.var.type)
            out += self._of_sub_group(x, value, x.value)
        store: s.Statement = s.Store(self._room(x.var.type), (self._part,), value, x.loc)
        if self._width > 1:
            store = s.If(e.Compare("eq", self._lane, zero(self._kind)), (store,), (), x.loc)
        out += [s.Barrier(x.loc), store, s.Barrier(x.loc)]
        each = self._width > 1 and self._items % self._width == 0 and self._parts <= self._width
        return (*out, *(self._by_each(x) if each else self._by_first(x)))

    def _room(self, kind: ValueType) -> Array:
        assert isinstance(kind, DType)
        room = self._rooms.get(kind)
        if room is None:
            shape = (self._parts,)
            name = self._names.fresh(f"parts_{kind.short}")
            room = Array(name, kind, "local", 1, shape, Layout.row_major(shape))
            self._rooms[kind] = room
        return room

    def _of_sub_group(self, x: s.WorkgroupReduce, var: e.Variable, value: e.Expression) -> s.Block:
        return (s.SubGroup(var, _IN_SUB_GROUPS[x.op], value, None, x.loc),)

    def _by_each(self, x: s.WorkgroupReduce) -> s.Block:
        """Every sub-group combines the parts; lanes beyond have the last one, or nought of sums."""
        held, parts = self._names.variable("held", x.var.type), e.Const(self._parts, self._kind)
        last = e.Const(self._parts - 1, self._kind)
        place = e.Binary("min", self._lane, last)
        value: e.Expression = held
        if x.op == "add":
            value = e.Select(e.Compare("lt", self._lane, parts), held, zero(held.type))
        load = s.Load(held, self._room(x.var.type), (place,), x.loc)
        return (load, *self._of_sub_group(x, x.var, value))

    def _by_first(self, x: s.WorkgroupReduce) -> s.Block:
        """The first work-item leaves the result where its own part was; processors do some at once.

        Parts that lie so far apart are combined first, then what is left of them.
        """
        room, nought = self._room(x.var.type), zero(self._kind)
        apart = _AT_ONCE if self._parts % _AT_ONCE == 0 else 1
        first, lane = (self._names.variable("number", self._kind) for _ in range(2))
        far = self._combined(x, lane, e.Binary("add", first, lane))
        rest = self._names.variable("number", self._kind)
        loops: s.Block = (
            self._loop(first, apart, self._parts, (self._loop(lane, 0, apart, far),), step=apart),
            self._loop(rest, 1, apart, self._combined(x, nought, rest)),
        )
        return (
            s.If(e.Compare("eq", self._item, nought), loops, (), x.loc),
            s.Barrier(x.loc),
            s.Load(x.var, room, (nought,), x.loc),
        )

    def _combined(self, x: s.WorkgroupReduce, to: e.Expression, more: e.Expression) -> s.Block:
        """Combines one part with another one, where the first is."""
        room = self._room(x.var.type)
        low, high = (self._names.variable("held", x.var.type) for _ in range(2))
        return (
            s.Load(low, room, (to,), x.loc),
            s.Load(high, room, (more,), x.loc),
            s.Store(room, (to,), e.Binary(x.op, low, high), x.loc),
        )

    def _loop(
        self, var: e.Variable, start: int, stop: int, body: s.Block, *, step: int = 1
    ) -> s.Statement:
        first, last, by = (e.Const(n, self._kind) for n in (start, stop, step))
        return s.For(var, first, last, by, body, body[0].loc)
