"""What a workgroup hands on of a sum over all work-items: one number instead of one for each."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from portable.dtypes import DType
from portable.gradients.adjoint.names import Names
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel, linear_local_id, sub_group_id, sub_group_local_id
from portable.lang.ir.types import Array, Layout


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
