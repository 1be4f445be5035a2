"""Waits and fences around warpgroup multiplications, which run on their own.

They read local memory through the asynchronous proxy, so every barrier is preceded by the fence
that shows it the work-item's own writes. They may be in flight until the next barrier, since only
after it may the tiles be overwritten: every barrier waits for them too, unless a loop cut in two
(`warp_specialisation`) has waited for all of them itself. (Letting them pass it, and holding back
the copies behind it by a wait and a barrier more, was slower by up to 6% on an H200.)
"""

from __future__ import annotations

from functools import partial

from portable.errors import Location
from portable.lang.ir import statements as s
from portable.lang.ir.walk import map_block

__all__ = ["settled", "wait"]


def wait(loc: Location) -> s.Instruction:
    """Waits for all multiplications."""
    return s.Instruction("wgmma.wait", (), (), (), loc)


def settled(body: s.Block, *, waiting: bool) -> s.Block:
    """The lowered body of a kernel with what its barriers need; `waiting` for multiplications."""
    return map_block(body, partial(_settled, waiting))


def _settled(waiting: bool, x: s.Statement) -> s.Block:
    if not isinstance(x, s.Barrier | s.WorkgroupUniform | s.BulkWait):
        return (x,)
    fence = s.Instruction("proxy.fence", (), (), (), x.loc)
    return (wait(x.loc), fence, x) if waiting else (fence, x)
