"""Leaves out what an adjoint does not need: values that nothing uses, stores that nothing reads."""

from __future__ import annotations

from collections.abc import Iterable

from portable.lang.ir import statements as s
from portable.lang.ir.types import Array
from portable.lang.ir.walks import names_in, reads


def needed(
    body: s.Block,
    kept: Iterable[Array],
    *,
    cells: Iterable[str] = (),
    covered: frozenset[str] = frozenset(),
) -> s.Block:
    """A body without what has no influence on some arrays, and on variables after it.

    Parameters
    ----------
    body : Block
    kept : iterable of Array
        The arrays that it is run for.
    cells : iterable of str
        Names of variables that are read after it.
    covered : frozenset of str
        Names that loads bind which read only what the same round of the outermost loop around them
        has written.
    """
    search = _Needed(set(kept), set(cells), covered)
    search.settle(body)
    return search.block(body)


class _Needed:
    def __init__(self, arrays: set[Array], names: set[str], covered: frozenset[str]) -> None:
        self._arrays = arrays
        self._covered = covered
        self._inside: set[tuple[Array, int]] = set()
        self._names = names
        self._live: set[int] = set()
        self._changed = False
        self._places: dict[int, tuple[int, int]] = {}
        self._read: dict[Array, tuple[int, set[int]]] = {}

    def settle(self, body: s.Block) -> None:
        self._place(body, 0)
        self._changed = True
        while self._changed:
            self._changed = False
            self._look(body)

    def _place(self, block: s.Block, loop: int) -> None:
        """Numbers the statements in order, and tells in which outermost loop each is, if any."""
        for x in block:
            assert id(x) not in self._places, "a statement stands in two places"
            self._places[id(x)] = len(self._places) + 1, loop
            inner = id(x) if not loop and isinstance(x, s.For | s.Loop) else loop
            for part in x.blocks():
                self._place(part, inner)

    def _reads(self, x: s.Statement, array: Array) -> None:
        """Learns that an array is read."""
        position, loop = self._places[id(x)]
        if loop and isinstance(x, s.Load) and x.var.name in self._covered:
            self._inside.add((array, loop))
            return
        last, loops = self._read.setdefault(array, (0, set()))
        self._read[array] = max(last, position), loops | {loop}

    def _is_read_after(self, x: s.Statement, array: Array) -> bool:
        """Whether an array may be read after a statement: further on, or in a later round."""
        position, loop = self._places[id(x)]
        if (array, loop) in self._inside:
            return True
        last, loops = self._read.get(array, (0, set()))
        return last > position or (loop != 0 and loop in loops)

    def _look(self, block: s.Block) -> bool:
        """Whether something in a block is needed, apart from leaving loops and meeting."""
        some = False
        for x in reversed(block):
            if id(x) in self._live and not x.blocks():
                some = some or not isinstance(x, s.Barrier)
                continue
            inner = [self._look(part) for part in x.blocks()]
            if any(inner) or (not inner and self._is_needed(x)):
                self._mark(x)
                some = True
                if isinstance(x, s.For | s.Loop):
                    self._leaves(x.body)
        return some

    def _is_needed(self, x: s.Statement) -> bool:
        match x:
            case s.Store() | s.Atomic():
                used = isinstance(x, s.Atomic) and self._uses(x)
                kept = x.array in self._arrays or self._is_read_after(x, x.array)
                return used or (kept and bool(x.written()))
            case s.Barrier() | s.Break() | s.Fence():
                return False
            case (
                s.WorkgroupUniform()
                | s.WorkgroupReduce()
                | s.SubGroup()
                | s.Let()
                | s.Load()
                | s.Assign()
            ):
                return any(v.name in self._names for v in (*x.binds(), *x.sets()))
            case _:
                return True

    def _leaves(self, block: s.Block) -> bool:
        """Marks what leaves a loop that is needed."""
        result = False
        for x in block:
            leaves = [self._leaves(part) for part in x.blocks()] if isinstance(x, s.If) else []
            if isinstance(x, s.Break) or any(leaves):
                self._mark(x)
                result = True
        return result

    def _mark(self, x: s.Statement) -> None:
        if id(x) in self._live:
            return
        self._live.add(id(x))
        self._changed = True
        for y in reads(x):
            self._names |= names_in(y)
        if isinstance(x, s.Load) or (isinstance(x, s.Atomic) and self._uses(x)):
            self._reads(x, x.array)

    def _uses(self, x: s.Atomic) -> bool:
        return x.var is not None and x.var.name in self._names

    # -- what is left ----------------------------------------------------------------------

    def block(self, block: s.Block) -> s.Block:
        out: list[s.Statement] = []
        for x in block:
            if id(x) in self._live:
                out.append(self._kept(x))
            elif _meets(x) and not (out and isinstance(out[-1], s.Barrier)):
                out.append(s.Barrier(x.loc))
        return tuple(out)

    def _kept(self, x: s.Statement) -> s.Statement:
        match x:
            case s.If():
                return s.If(x.condition, self.block(x.then), self.block(x.orelse), x.loc)
            case s.For():
                body = self.block(x.body)
                return s.For(x.var, x.start, x.stop, x.step, body, x.loc, x.unroll)
            case s.Loop():
                return s.Loop(self.block(x.body), x.loc)
            case _:
                return x


def _meets(x: s.Statement) -> bool:
    """Whether it has the work-items of a workgroup meet, or may."""
    if isinstance(x, s.Barrier | s.WorkgroupUniform):
        return True
    return any(_meets(y) for part in x.blocks() for y in part)
