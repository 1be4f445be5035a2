"""What a workgroup hands on of a sum over all work-items: one number instead of one for each."""

from __future__ import annotations

from collections.abc import Sequence

from portable.gradients.adjoint.names import Names, zero
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel, linear_local_id
from portable.lang.ir.types import Array


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
) -> s.Block:
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
    """
    sums = [names.variable("part", total.type) for total in totals]
    reductions = (
        s.WorkgroupReduce(part, "add", total, kernel.loc)
        for part, total in zip(sums, totals, strict=True)
    )
    target = _group_number(kernel, dims)
    stores: s.Block = tuple(
        s.Store(array, (target,), part, kernel.loc) for array, part in zip(into, sums, strict=True)
    )
    item = linear_local_id(kernel.workgroup, kernel.index_type)
    first = e.Compare("eq", item, zero(kernel.index_type))
    return (*reductions, s.If(first, stores, (), kernel.loc))
