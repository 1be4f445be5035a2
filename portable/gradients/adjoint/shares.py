"""What a workgroup hands on of a sum over all work-items: one number instead of one for each."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from portable.dtypes import DType
from portable.gradients.adjoint.names import Names
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel, linear_local_id, sub_group_id, sub_group_local_id
from portable.lang.ir.types import Array, Layout

_FEW: Final = 8
"""Numbers that one work-item sums up by itself, rather than meeting the others again."""


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
    halved, left = _halved(kernel, rooms, count, names)
    target = _group_number(kernel, dims)
    return (*out, *halved, _handed_on(kernel, rooms, left, into, target, names)), rooms


def _handed_on(
    kernel: Kernel,
    rooms: Sequence[Array],
    count: int,
    into: Sequence[Array],
    target: e.Expression,
    names: Names,
) -> s.Statement:
    """Has the first work-item sum up what is left, and write the sums to global memory."""
    item = linear_local_id(kernel.workgroup, kernel.index_type)
    body: list[s.Statement] = []
    for room, array in zip(rooms, into, strict=True):
        total: e.Expression | None = None
        for number in range(count):
            part = names.variable("part", room.dtype)
            body.append(s.Load(part, room, (e.Const(number, kernel.index_type),), kernel.loc))
            total = part if total is None else e.Binary("add", total, part)
        assert total is not None
        body.append(s.Store(array, (target,), total, kernel.loc))
    return s.If(e.Compare("eq", item, _zero(kernel)), tuple(body), (), kernel.loc)


def _halved(
    kernel: Kernel, rooms: Sequence[Array], count: int, names: Names
) -> tuple[s.Block, int]:
    """Adds the upper half of local arrays to the lower one until few elements are left."""
    item = linear_local_id(kernel.workgroup, kernel.index_type)
    out: list[s.Statement] = []
    while count > _FEW:
        half = (count + 1) // 2
        body: list[s.Statement] = []
        for room in rooms:
            low, high = (names.variable("part", room.dtype) for _ in range(2))
            other = e.Binary("add", item, e.Const(half, kernel.index_type))
            body += [
                s.Load(low, room, (item,), kernel.loc),
                s.Load(high, room, (other,), kernel.loc),
                s.Store(room, (item,), e.Binary("add", low, high), kernel.loc),
            ]
        inside = e.Compare("lt", item, e.Const(count - half, kernel.index_type))
        out += [s.If(inside, tuple(body), (), kernel.loc), s.Barrier(kernel.loc)]
        count = half
    return tuple(out), count


def _zero(kernel: Kernel) -> e.Expression:
    return e.Const(0, kernel.index_type)
