"""Variables whose values are known where they are read, and those that loops leave as they were.

The adjoint of a sum takes what it has, clears it and adds the same again. What is known to be
nought, as at the beginning of each round, is not added to; what each round of a loop leaves as it
found it is not assigned in it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from portable.gradients.adjoint.flatten import set_in
from portable.lang.ir import expressions as e
from portable.lang.ir import nodes, walks
from portable.lang.ir import statements as s

_JUMPS = s.Break | s.Continue | s.Return


def settled(body: s.Block, cells: frozenset[str]) -> s.Block:
    """A body that reads variables only where their values are not known otherwise.

    Parameters
    ----------
    body : Block
    cells : frozenset of str
        The names of the kernel's variables.
    """
    return _Settling(cells).block(body, {})


_Known = dict[str, e.Expression]


class _Settling:
    """Walks through a body; `known` is what stands for variables at a place."""

    def __init__(self, cells: frozenset[str]) -> None:
        self._cells = cells

    def block(self, block: s.Block, known: _Known) -> s.Block:
        return tuple(self._statement(x, known) for x in block)

    def _statement(self, x: s.Statement, known: _Known) -> s.Statement:
        match x:
            case s.Let():
                value = self._value(x.value, known)
                if isinstance(value, e.Variable) and value.name in self._cells:
                    known[value.name] = x.var
                elif _is_number(value):
                    known[x.var.name] = value
                return s.Let(x.var, value, x.loc)
            case s.Assign():
                return self._assign(x, known)
            case s.If():
                condition = self._value(x.condition, known)
                then, orelse = (self.block(part, dict(known)) for part in x.blocks())
                _forget(known, set_in(then, orelse))
                return s.If(condition, then, orelse, x.loc)
            case s.For() | s.Loop():
                return self._loop(x, known)
            case _:
                return self._with(x, known)

    def _with(self, x: s.Statement, known: _Known) -> s.Statement:
        bound = {v.name for v in x.binds()}

        def change(y: e.Expression) -> e.Expression:
            if isinstance(y, e.Variable) and y.name in bound:
                return y
            return self._value(y, known)

        made = walks.map_operands(x, change)
        return made if made is not x else replace(x)  # type: ignore[type-var]

    def _value(self, x: e.Expression, known: _Known) -> e.Expression:
        return walks.map_expression(
            x, lambda y: known.get(y.name, y) if isinstance(y, e.Variable) else _folded(y)
        )

    def _assign(self, x: s.Assign, known: _Known) -> s.Statement:
        value = self._value(x.value, known)
        simple = isinstance(value, e.Variable) and value.name not in self._cells
        if simple or _is_number(value):
            known[x.var.name] = value
        else:
            known.pop(x.var.name, None)
        return s.Assign(x.var, value, x.loc)

    def _loop(self, x: s.For | s.Loop, known: _Known) -> s.Statement:
        head = self._with(replace(x, body=()), known)
        changed = set_in(x.body)
        before = {name: y for name, y in known.items() if name not in changed}
        # A number stays known where each round that begins with it ends with it: of a round that
        # does not, what it lost is left out, and it is settled again.
        held = {name: known[name] for name in changed & known.keys() if _is_number(known[name])}
        lost = set(held) if any(map(jumps, x.body)) else set()
        while True:
            held = {name: y for name, y in held.items() if name not in lost}
            inner = before | held
            body = self.block(x.body, inner)
            lost = {name for name in held if inner.get(name) != held[name]}
            if not lost:
                break
        before |= held
        unchanged = _unchanged(body, inner)
        if unchanged:
            body = _without(body, unchanged)
            again = {name: known[name] for name in unchanged if name in known}
            if again:
                body = self.block(body, before | again)
        _forget(known, set_in(body) - held.keys())
        return replace(head, body=body)  # type: ignore[type-var]


def _is_number(x: e.Expression) -> bool:
    return nodes.constant_of(x) is not None


def _unchanged(body: s.Block, after: _Known) -> set[str]:
    """The variables that a round leaves as it found them."""
    if any(map(jumps, body)):
        return set()
    begun: dict[str, str] = {}
    assigned: set[str] = set()
    for x in body:
        read = x.value if isinstance(x, s.Let) else None
        if isinstance(x, s.Let) and isinstance(read, e.Variable) and read.name not in assigned:
            begun.setdefault(read.name, x.var.name)
        assigned |= {v.name for v in x.sets()} | set_in(*x.blocks())
    times = Counter(
        name
        for x in walks.all_statements(body)
        for y in walks.reads(x)
        for name in walks.names_in(y)
    )
    return {
        name
        for name in assigned & begun.keys()
        if times[name] == 1
        and isinstance(value := after.get(name), e.Variable)
        and value.name == begun[name]
    }


def _without(block: s.Block, cells: set[str]) -> s.Block:
    """A block that does not assign to some variables."""
    out: list[s.Statement] = []
    for x in block:
        if isinstance(x, s.Assign) and x.var.name in cells:
            continue
        match x:
            case s.If():
                then, orelse = (_without(part, cells) for part in x.blocks())
                out.append(s.If(x.condition, then, orelse, x.loc))
            case s.For() | s.Loop():
                out.append(replace(x, body=_without(x.body, cells)))
            case _:
                out.append(x)
    return tuple(out)


def _folded(x: e.Expression) -> e.Expression:
    """A sum without what is nought."""
    if isinstance(x, e.Binary) and x.op == "add":
        if nodes.constant_of(x.x) == 0:
            return x.y
        if nodes.constant_of(x.y) == 0:
            return x.x
    return x


def jumps(x: s.Statement) -> bool:
    """Whether a statement, or one in it, leaves a loop's round or the kernel."""
    return any(isinstance(y, _JUMPS) for y in walks.all_statements((x,)))


def _forget(known: _Known, names: set[str]) -> None:
    for name in names:
        known.pop(name, None)
