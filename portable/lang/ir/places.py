"""Where a work-item stands, in terms of the words that every device has."""

from __future__ import annotations

from portable.dtypes import DType
from portable.lang.ir import expressions as e
from portable.lang.ir.kernel import Kernel

__all__ = ["linear_id", "linear_local_id", "sub_group_id", "sub_group_local_id"]


def linear_local_id(workgroup: tuple[int, int, int], kind: DType) -> e.Expression:
    """The linear local index of a work-item as an expression; dimension 0 varies fastest."""
    total: e.Expression | None = None
    for dim in (2, 1, 0):
        if workgroup[dim] == 1:
            continue
        number = e.WorkItem("local_id", dim, kind)
        if total is None:
            total = number
        else:
            scaled = e.Binary("mul", total, e.Const(workgroup[dim], kind))
            total = e.Binary("add", scaled, number)
    return e.Const(0, kind) if total is None else total


def linear_id(kernel: Kernel, kind: DType) -> e.Expression:
    """The same, of a kernel that may be launched along one dimension."""
    if kernel.flat:
        return e.WorkItem("local_linear_id", 0, kind)
    return linear_local_id(kernel.workgroup, kind)


def sub_group_id(kernel: Kernel, kind: DType) -> e.Expression:
    """The number of a work-item's sub-group; their size is a power of two."""
    exponent = kernel.sub_group_size.bit_length() - 1
    return e.Binary("shr", linear_id(kernel, kind), e.Const(exponent, kind))


def sub_group_local_id(kernel: Kernel, kind: DType) -> e.Expression:
    """The number of a work-item in its sub-group."""
    if kernel.sub_group_size == 1:
        return e.Const(0, kind)
    return e.Binary("and", linear_id(kernel, kind), e.Const(kernel.sub_group_size - 1, kind))
