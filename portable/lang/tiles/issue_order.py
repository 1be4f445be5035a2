"""Starts multiplications before the copies that stand between them and the barrier above.

Such a copy cannot touch what the multiplication reads: without a barrier between the two, the
program would have a race. So the order is free, and what runs on its own starts first.
"""

from __future__ import annotations

from collections.abc import Callable

from portable.lang.ir import statements as s
from portable.lang.ir.walk import map_blocks

__all__ = ["started_early"]

_PASSED = s.Let | s.CopyTile | s.CopyCommit


def started_early(body: s.Block, chosen: Callable[[s.Multiply], bool]) -> s.Block:
    """The block with the chosen multiplications before the copies and bindings next to them."""
    out: list[s.Statement] = []
    run: list[s.Statement] = []
    for statement in body:
        x = map_blocks(statement, lambda block: started_early(block, chosen))
        if isinstance(x, _PASSED) or (isinstance(x, s.Multiply) and chosen(x)):
            run.append(x)
        else:
            out += [*_sorted(run), x]
            run = []
    return (*out, *_sorted(run))


def _sorted(run: list[s.Statement]) -> list[s.Statement]:
    """Bindings, then multiplications, then copies, each in their order."""
    if not any(isinstance(x, s.Multiply) for x in run):
        return run
    return sorted(run, key=lambda x: (not isinstance(x, s.Let), not isinstance(x, s.Multiply)))
