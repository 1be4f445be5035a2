"""Where a work-item stands, in terms of the words that every device has."""

from __future__ import annotations

from portable.dtypes import DType
from portable.lang.ir import expressions as e

__all__ = ["linear_local_id"]


def linear_local_id(workgroup: tuple[int, int, int], kind: DType) -> e.Expression:
    """The linear local index of a work-item as an expression; dimension 0 varies fastest."""
    total: e.Expression | None = None
    for dim in (2, 1, 0):
        if workgroup[dim] == 1:
            continue
        own = e.WorkItem("local_id", dim, kind)
        if total is None:
            total = own
        else:
            scaled = e.Binary("mul", total, e.Const(workgroup[dim], kind))
            total = e.Binary("add", scaled, own)
    return e.Const(0, kind) if total is None else total
