"""Control flow without jumps: what `Return`, `Break` and `Continue` skip stands under conditions.

Where one branch of a condition ends by jumping, the statements after it become the other branch.
Elsewhere flags say whether to go on.
"""

from __future__ import annotations

from dataclasses import replace

from portable.dtypes import bool_
from portable.errors import Location
from portable.gradients.adjoint.names import Names
from portable.gradients.adjoint.rounds import Rounds
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel

_JUMPS = (s.Break, s.Continue, s.Return)


def without_jumps(kernel: Kernel, names: Names) -> Kernel:
    """The kernel with `Rounds` for loops, in which nothing jumps."""
    made = _Structured(names)
    body = made.body(kernel.body, kernel.loc)
    return replace(kernel, body=body, variables=(*kernel.variables, *made.variables))


class _Scope:
    """A loop's body, or the kernel's, with the flags that it turned out to need."""

    def __init__(self, outer: _Scope | None) -> None:
        self.outer = outer
        self.on: e.Variable | None = None
        self.going: e.Variable | None = None


class _Structured:
    def __init__(self, names: Names) -> None:
        self.variables: list[e.Variable] = []
        self._names = names

    def body(self, block: s.Block, loc: Location, scope: _Scope | None = None) -> s.Block:
        """A kernel's or a loop's body; the flag of its statements is true at its start."""
        scope = _Scope(None) if scope is None else scope
        made = self._block(block, scope)
        return made if scope.on is None else (s.Assign(scope.on, _TRUE, loc), *made)

    def _block(self, block: s.Block, scope: _Scope) -> s.Block:
        for i, x in enumerate(block):
            if isinstance(x, _JUMPS):
                return (*block[:i], *self._jump(x, scope))
            if isinstance(x, s.For | s.Loop):
                head = block[:i]
                return (*head, *self._loop(x, scope), *self._after(x, block[i + 1 :], scope))
            if isinstance(x, s.If) and not _plain(x):
                return (*block[:i], *self._branch(x, block[i + 1 :], scope))
        return block

    def _jump(self, x: s.Statement, scope: _Scope) -> list[s.Statement]:
        """What is left of a jump: its flags, which are of use where some were asked for."""
        out: list[s.Statement] = []
        if isinstance(x, s.Return):
            at: _Scope | None = scope
            while at is not None:
                out += self._lower(at, x.loc, at.outer is not None)
                at = at.outer
            return out
        return self._lower(scope, x.loc, isinstance(x, s.Break))

    def _lower(self, scope: _Scope, loc: Location, leaves: bool) -> list[s.Statement]:
        out: list[s.Statement] = [s.Assign(self._on(scope), _FALSE, loc)]
        if leaves:
            scope.going = scope.going or self._flag("going")
            out.append(s.Assign(scope.going, _FALSE, loc))
        return out

    def _on(self, scope: _Scope) -> e.Variable:
        scope.on = scope.on or self._flag("on")
        return scope.on

    def _flag(self, name: str) -> e.Variable:
        var = self._names.variable(name, bool_)
        self.variables.append(var)
        return var

    def _loop(self, x: s.For | s.Loop, scope: _Scope) -> list[s.Statement]:
        inner = _Scope(scope)
        body = self.body(x.body, x.loc, inner)
        before = [] if inner.going is None else [s.Assign(inner.going, _TRUE, x.loc)]
        if isinstance(x, s.For):
            bounds = (x.start, x.stop, x.step)
            return [*before, Rounds(x.var, bounds, inner.going, body, x.loc, x.unroll)]
        return [*before, Rounds(None, None, inner.going, body, x.loc)]

    def _after(self, x: s.Statement, rest: s.Block, scope: _Scope) -> s.Block:
        """What follows a loop, which may have returned."""
        made = self._block(rest, scope)
        if not made or not _returns(x):
            return made
        return (s.If(self._on(scope), made, (), x.loc),)

    def _branch(self, x: s.If, rest: s.Block, scope: _Scope) -> s.Block:
        """A condition with jumps in it, and what follows it."""
        if _ends(x.then) and not _jumps(x.orelse):
            return (self._if(x, x.then, (*x.orelse, *rest), scope),)
        if _ends(x.orelse) and not _jumps(x.then):
            return (self._if(x, (*x.then, *rest), x.orelse, scope),)
        made = self._if(x, x.then, x.orelse, scope)
        after = self._block(rest, scope)
        if not after or not _jumps((x,)):
            return (made, *after)
        return (made, s.If(self._on(scope), after, (), x.loc))

    def _if(self, x: s.If, then: s.Block, orelse: s.Block, scope: _Scope) -> s.If:
        return s.If(x.condition, self._block(then, scope), self._block(orelse, scope), x.loc)


_TRUE = e.Const(True, bool_)
_FALSE = e.Const(False, bool_)


def _plain(x: s.Statement) -> bool:
    """Whether it has neither jumps nor loops."""
    if isinstance(x, (*_JUMPS, s.For, s.Loop)):
        return False
    return all(_plain(y) for block in x.blocks() for y in block)


def _jumps(block: s.Block) -> bool:
    """Whether something in a block may jump out of it."""
    for x in block:
        if isinstance(x, _JUMPS):
            return True
        if isinstance(x, s.For | s.Loop):
            if _returns(x):
                return True
        elif any(_jumps(inner) for inner in x.blocks()):
            return True
    return False


def _returns(x: s.Statement) -> bool:
    return isinstance(x, s.Return) or any(_returns(y) for block in x.blocks() for y in block)


def _ends(block: s.Block) -> bool:
    """Whether a block always ends by jumping."""
    if not block:
        return False
    last = block[-1]
    if isinstance(last, s.If):
        return _ends(last.then) and _ends(last.orelse)
    return isinstance(last, _JUMPS)
