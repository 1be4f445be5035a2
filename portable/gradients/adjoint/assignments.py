"""Leaves out assignments to variables that are given another value before anything reads them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from portable.lang.ir import statements as s
from portable.lang.ir.walks import names_in, reads


def without_overwritten(body: s.Block, cells: frozenset[str], after: Iterable[str] = ()) -> s.Block:
    """A kernel's body without them.

    Parameters
    ----------
    body : Block
        Without `Continue` and `Return`.
    cells : frozenset of str
        The names of the kernel's variables.
    after : iterable of str
        Those that are read after it.
    """
    return _Liveness(cells).block(body, set(after))


class _Liveness:
    """Goes backwards; `live` are the variables whose values are read from a place on."""

    def __init__(self, cells: frozenset[str]) -> None:
        self._cells = cells
        self._after_loop: list[set[str]] = []

    def block(self, block: s.Block, live: set[str]) -> s.Block:
        """What is left of a block; `live` becomes what is live before it."""
        out: list[s.Statement] = []
        for x in reversed(block):
            if isinstance(x, s.Assign) and x.var.name not in live:
                continue
            out.append(self._statement(x, live))
        return tuple(reversed(out))

    def _statement(self, x: s.Statement, live: set[str]) -> s.Statement:
        made = x
        match x:
            case s.If():
                other = set(live)
                then, orelse = self.block(x.then, live), self.block(x.orelse, other)
                live |= other
                made = replace(x, then=then, orelse=orelse)
            case s.For() | s.Loop():
                made = self._loop(x, live)
            case s.Break():
                live.clear()
                live |= self._after_loop[-1]
            case _:
                live -= {v.name for v in x.sets()}
        live |= {name for y in reads(x) for name in names_in(y)} & self._cells
        return made

    def _loop(self, x: s.For | s.Loop, live: set[str]) -> s.Statement:
        """A round is followed by another one, or by what follows the loop."""
        after = set(live) if isinstance(x, s.For) else set[str]()
        self._after_loop.append(set(live))
        before = set[str]()
        while True:
            live.clear()
            live |= after | before
            body = self.block(x.body, live)
            if live <= before:
                break
            before |= live
        self._after_loop.pop()
        live |= after
        return replace(x, body=body)
