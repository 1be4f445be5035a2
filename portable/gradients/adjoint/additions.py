"""One addition to memory in place of many.

An element that a work-item reads in every round of a loop, such as its own place beside those of
its neighbours, would be added to atomically in every round: it is once, after the loop, what the
rounds summed up. Of a sum over all work-items a workgroup hands on one number, not one for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from portable.dtypes import DType
from portable.gradients.adjoint.activity import names_in
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
from portable.lang.ir.types import Array, Layout


def after_loops(
    body: s.Block, names: Names, sub_group_size: int
) -> tuple[s.Block, list[e.Variable]]:
    """A body with such additions behind loops, and the variables that sum up.

    Nothing is added where the sum is nought, as where no round came to the addition; nor to local
    memory, where work-items wait for each other, if many run side by side.
    """
    cells: list[e.Variable] = []

    def change(x: s.Statement) -> s.Block:
        return _hoisted(x, names, cells) if isinstance(x, s.For | s.Loop) else (x,)

    def some(x: s.Statement) -> s.Block:
        here = isinstance(x, s.Atomic) and _is_sum(x) and x.array.space == "local"
        return (_unless_nought(x),) if here and isinstance(x, s.Atomic) else (x,)

    moved = map_block(body, change)
    return (map_block(moved, some) if sub_group_size > 1 else moved), cells


def _hoisted(loop: s.For | s.Loop, names: Names, cells: list[e.Variable]) -> s.Block:
    sums: dict[tuple[Array, tuple[e.Expression, ...]], tuple[e.Variable, s.Atomic]] = {}
    inside = list(all_statements((loop,)))
    changed = {v.name for x in inside for v in (*x.binds(), *x.sets())}
    accessed = {x.array for x in inside if isinstance(x, s.Load | s.Store)}

    def change(x: s.Statement) -> s.Block:
        if not isinstance(x, s.Atomic) or not _is_sum(x) or x.array in accessed:
            return (x,)
        if not all(names_in(i).isdisjoint(changed) for i in x.index):
            return (x,)
        assert x.value is not None
        key = x.array, x.index
        if key not in sums:
            sums[key] = names.variable("sum", x.value.type), x
        total = sums[key][0]
        return (s.Assign(total, e.Binary("add", total, x.value), x.loc),)

    (made,) = map_block((loop,), change)
    cells += [total for total, _ in sums.values()]
    before = [s.Assign(total, zero(total.type), x.loc) for total, x in sums.values()]
    return (*before, made, *(_added(x, total) for total, x in sums.values()))


def _is_sum(x: s.Atomic) -> bool:
    return x.op == "add" and x.var is None and x.value is not None and x.array.dtype.is_float


def _added(x: s.Atomic, total: e.Variable) -> s.Statement:
    addition = s.Atomic(None, "add", x.array, x.index, total, None, x.order, x.scope, x.loc)
    return _unless_nought(addition)


def _unless_nought(x: s.Atomic) -> s.Statement:
    assert x.value is not None
    return s.If(e.Compare("ne", x.value, zero(x.value.type)), (x,), (), x.loc)


def _group_number(kernel: Kernel, dims: int) -> e.Expression:
    """The number of this workgroup among all."""
    total: e.Expression = e.Const(0, kernel.index_type)
    for dim in reversed(range(dims)):
        size = e.WorkItem("num_groups", dim, kernel.index_type)
        number = e.WorkItem("group_id", dim, kernel.index_type)
        total = number if dim == dims - 1 else e.Binary("add", e.Binary("mul", total, size), number)
    return total


def summed_up(
    kernel: Kernel, totals: Sequence[e.Variable], into: Sequence[Array], dims: int, names: Names
) -> tuple[s.Block, list[Array]]:
    """The statements by which a workgroup sums up variables and hands on the sums.

    All its work-items have to get there.

    Parameters
    ----------
    kernel : Kernel
    totals : sequence of Variable
    into : sequence of Array
        Global, of one element for each workgroup.
    dims : int
        How many dimensions the ndrange has.
    names : Names

    Returns
    -------
    Block, list of Array
        The statements, and the local memory.
    """
    out: list[s.Statement] = []
    rooms: list[Array] = []
    values: list[e.Expression] = list(totals)
    item, count = linear_local_id(kernel.workgroup, kernel.index_type), prod(kernel.workgroup)
    if kernel.sub_group_size > 1:
        for i, total in enumerate(totals):
            part = names.variable("part", total.type)
            out.append(s.SubGroup(part, "reduce_add", total, None, kernel.loc))
            values[i] = part
        item, count = sub_group_id(kernel, kernel.index_type), -(-count // kernel.sub_group_size)
    for total in totals:
        assert isinstance(total.type, DType)
        layout = Layout.row_major((count,))
        room = Array(names.fresh("parts"), total.type, "local", 1, (count,), layout)
        rooms.append(room)
    stores: s.Block = tuple(
        s.Store(room, (item,), value, kernel.loc) for room, value in zip(rooms, values, strict=True)
    )
    if kernel.sub_group_size > 1:
        first = e.Compare("eq", sub_group_local_id(kernel, kernel.index_type), _zero(kernel))
        stores = (s.If(first, stores, (), kernel.loc),)
    out += [*stores, s.Barrier(kernel.loc)]
    out.append(_handed_on(kernel, rooms, into, _group_number(kernel, dims), names))
    return tuple(out), rooms


def _handed_on(
    kernel: Kernel,
    rooms: Sequence[Array],
    into: Sequence[Array],
    target: e.Expression,
    names: Names,
) -> s.Statement:
    """Has the first work-item sum up the parts, where the first one is, and hand on the sums."""
    nought, one = _zero(kernel), e.Const(1, kernel.index_type)
    body: list[s.Statement] = []
    for room, array in zip(rooms, into, strict=True):
        number, count = names.variable("number", kernel.index_type), prod(room.shape)
        total, low, high = (names.variable("total", room.dtype) for _ in range(3))
        added: s.Block = (
            s.Load(low, room, (nought,), kernel.loc),
            s.Load(high, room, (number,), kernel.loc),
            s.Store(room, (nought,), e.Binary("add", low, high), kernel.loc),
        )
        stop = e.Const(count, kernel.index_type)
        body.append(s.For(number, one, stop, one, added, kernel.loc))
        body.append(s.Load(total, room, (nought,), kernel.loc))
        body.append(s.Store(array, (target,), total, kernel.loc))
    item = linear_local_id(kernel.workgroup, kernel.index_type)
    return s.If(e.Compare("eq", item, nought), tuple(body), (), kernel.loc)


def _zero(kernel: Kernel) -> e.Expression:
    return e.Const(0, kernel.index_type)
