"""Ends ndranges where the user said, within the last workgroup, by a guard at the beginning."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel


def end_ranges(kernel: Kernel) -> Kernel:
    """The kernel, whose work-items return at once where they are beyond the ndrange."""
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
