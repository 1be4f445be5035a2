"""Lets a workgroup meet again where branches and loops with barriers end.

PoCL (3.0 and 3.1) runs the work-items of a workgroup in loops from one barrier to the next. Where
one of two ways to a place leads through a barrier, as after an ``if`` that holds one, the code from
that place to the next barrier belongs to two such loops, and variables assigned beyond the barrier
were seen to have the values there that they had before the branch. A barrier at that place parts
the loops. All work-items reach it, since all reach those within.
"""

from __future__ import annotations

from dataclasses import replace

from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.walk import all_statements, map_block

__all__ = ["meet_after_barriers"]


def meet_after_barriers(kernel: Kernel) -> Kernel:
    """The kernel with a barrier after each branch and loop in which there is one."""
    if kernel.workgroup == (1, 1, 1):
        return kernel
    return replace(kernel, body=map_block(kernel.body, _joined))


def _joined(statement: s.Statement) -> s.Block:
    if not isinstance(statement, s.If | s.For | s.Loop):
        return (statement,)
    within = (x for block in statement.blocks() for x in all_statements(block))
    if not any(isinstance(x, s.Barrier | s.WorkgroupUniform) for x in within):
        return (statement,)
    return statement, s.Barrier(statement.loc)
