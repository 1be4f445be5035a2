"""Where work-items stand, from the indices that every language has, and where ndranges end.

The sub-group of a work-item follows from its linear local index. Where a device forms sub-groups
in another order, a workgroup of several dimensions is launched along one, and the local indices
are worked out.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from math import prod

from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir import walks
from portable.lang.ir.kernel import Kernel, linear_id, sub_group_id, sub_group_local_id
from portable.lang.passes.semantics import Semantics


def launched_flat(kernel: Kernel, semantics: Semantics) -> Kernel:
    """The kernel, launched along one dimension where its sub-groups would not be right else."""
    return replace(kernel, flat=semantics.flat_sub_groups and _needs_flat(kernel))


def _needs_flat(kernel: Kernel) -> bool:
    """Whether sub-groups are used in a workgroup whose rows they do not divide."""
    size, (x, y, z) = kernel.sub_group_size, kernel.workgroup
    used = walks.holds(kernel.body, s.SubGroup)
    return used and size > 1 and y * z > 1 and x % size != 0


def placed(x: e.WorkItem, kernel: Kernel) -> e.Expression:
    """A word in terms of those that every language has; itself where it is one."""
    match x.word:
        case "sub_group_local_id":
            return sub_group_local_id(kernel, x.type)
        case "sub_group_id":
            return sub_group_id(kernel, x.type)
        case "local_id" if kernel.workgroup[x.dim] == 1:
            return e.Const(0, x.type)
        case "local_id" | "global_id" | "global_size" if kernel.flat:
            return _unfolded(x, kernel)
        case _:
            return x


def _unfolded(x: e.WorkItem, kernel: Kernel) -> e.Expression:
    """An index of a workgroup that is launched along one dimension."""
    extent = e.Const(kernel.workgroup[x.dim], x.type)
    if x.word == "local_id":
        before = e.Const(prod(kernel.workgroup[: x.dim]), x.type)
        row = e.Binary("floordiv", linear_id(kernel, x.type), before, nonnegative=True)
        return e.Binary("mod", row, extent, nonnegative=True)
    word: e.WorkItemWord = "group_id" if x.word == "global_id" else "num_groups"
    total = e.Binary("mul", e.WorkItem(word, x.dim, x.type), extent)
    if x.word == "global_size":
        return total
    return e.Binary("add", total, placed(e.WorkItem("local_id", x.dim, x.type), kernel))


def end_ranges(kernel: Kernel) -> Kernel:
    """The kernel, whose ndrange ends where the user said, within the last workgroup.

    A guard at the beginning lets work-items beyond it return at once.
    """
    if not kernel.ragged:
        return kernel
    kind = kernel.index_type
    beyond: list[e.Expression] = [
        e.Compare("ge", e.WorkItem("global_id", dim, kind), e.WorkItem("global_size", dim, kind))
        for dim in kernel.ragged
    ]
    anywhere = reduce(lambda x, y: e.Binary("or", x, y), beyond)
    guard = s.If(anywhere, (s.Return(kernel.loc),), (), kernel.loc)
    return replace(kernel, body=(guard, *kernel.body))
