"""Lets a workgroup meet again where branches and loops with barriers end, and at a round's end.

PoCL (3.0 and 3.1) runs the work-items of a workgroup in loops from one barrier to the next. Where
one of two ways to a place leads through a barrier, as after an ``if`` that holds one, the code
from that place to the next barrier belongs to two such loops, and variables assigned beyond the
barrier were seen to have the values there that they had before the branch. A barrier at that
place parts the loops. All work-items reach it, since all reach those within.

PoCL itself ends each round of a loop with barriers in one, but puts it before the last branch
where nothing follows what that branch skips: all work-items then go where the first one goes. A
barrier of ours at a round's end follows it. The step of a loop that counts stands there too, but
not where there is one round at most, as of ``range(0, min(n, 8), 8)``, which LLVM sees. The same
was seen of a branch with barriers that ends in a branch without one, so that its sides end in
one, and of loops without any in kernels with barriers, to which PoCL adds its own where all
work-items go round as often: there a fence, which work-items may reach apart, is enough.
"""

from __future__ import annotations

from dataclasses import replace

from portable.lang.ir import statements as s
from portable.lang.ir import walks
from portable.lang.ir.kernel import Kernel


def meet_after_barriers(kernel: Kernel) -> Kernel:
    """The kernel with a barrier after each branch and loop in which there is one.

    The sides of such a branch end in one too, and so do the rounds of such a loop.
    """
    if kernel.workgroup == (1, 1, 1) or not meets(kernel.body):
        return kernel
    return replace(kernel, body=walks.map_block(kernel.body, _joined))


def meets(block: s.Block) -> bool:
    """Whether all work-items meet anywhere in a block."""
    return walks.holds(block, s.Barrier | s.WorkgroupUniform)


def _joined(statement: s.Statement) -> s.Block:
    if not isinstance(statement, s.If | s.For | s.Loop):
        return (statement,)
    if not any(meets(block) for block in statement.blocks()):
        if isinstance(statement, s.Loop):
            fence = s.Fence("acq_rel", "workgroup", statement.loc)
            return (replace(statement, body=_round(statement.body, fence)),)
        return (statement,)
    meeting = s.Barrier(statement.loc)
    if isinstance(statement, s.If):
        then, orelse = _ended(statement.then, meeting), _ended(statement.orelse, meeting)
        return replace(statement, then=then, orelse=orelse), meeting
    return replace(statement, body=_round(statement.body, meeting)), meeting


def _round(body: s.Block, end: s.Barrier | s.Fence) -> s.Block:
    """A loop's body with `end` where it ends, and where it is left early for the next round.

    With a barrier that is right where the loop holds barriers: all work-items continue, or none.
    """
    return _ended(_before_continuing(body, end), end)


def _ended(block: s.Block, end: s.Barrier | s.Fence) -> s.Block:
    """A block with `end` where its end is reached."""
    if not block or isinstance(block[-1], s.Barrier | s.Break | s.Continue | s.Return):
        return block
    return *block, end


def _before_continuing(block: s.Block, end: s.Barrier | s.Fence) -> s.Block:
    out: list[s.Statement] = []
    for x in block:
        if isinstance(x, s.Continue):
            out.append(end)
        is_loop = isinstance(x, s.For | s.Loop)
        out.append(
            x if is_loop else walks.map_blocks(x, lambda inner: _before_continuing(inner, end))
        )
    return tuple(out)
