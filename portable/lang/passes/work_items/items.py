"""How a work-item's place is said inside a loop over work-items, and around it."""

from __future__ import annotations

from portable.lang.ir import expressions as e
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.places import linear_id
from portable.lang.ir.walk import map_expression

__all__ = ["item_number", "of_first_item"]


def item_number(kernel: Kernel) -> e.Expression:
    """The linear local index of a work-item, by which values are kept."""
    return linear_id(kernel, kernel.index_type)


def of_first_item(x: e.Expression, kernel: Kernel) -> e.Expression:
    """An expression as the workgroup's first work-item has it."""

    def word(x: e.Expression) -> e.Expression:
        if not isinstance(x, e.WorkItem):
            return x
        match x.word:
            case "local_id" | "local_linear_id" | "sub_group_id" | "sub_group_local_id":
                return e.Const(0, x.type)
            case "global_id":
                size = e.Const(kernel.workgroup[x.dim], x.type)
                return e.Binary("mul", e.WorkItem("group_id", x.dim, x.type), size)
            case _:
                return x

    return map_expression(x, word)
