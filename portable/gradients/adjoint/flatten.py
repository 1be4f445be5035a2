"""Programs of single steps on names that never change.

Each operation on floats is bound to a name of its own; a variable that changes is read into a name
where it is used. So whatever an adjoint needs has a name, and a variable is a cell: assigned to,
read from.
"""

from __future__ import annotations

from dataclasses import replace

from portable.gradients.adjoint.names import Names, is_float, refuse
from portable.gradients.adjoint.rounds import Rounds
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir import walks
from portable.lang.ir.kernel import Kernel


def flat(kernel: Kernel, names: Names) -> Kernel:
    """A kernel without jumps as such a program."""
    made = _Flat(names, frozenset(x.name for x in kernel.variables))
    return replace(kernel, body=tuple(made.block(kernel.body)))


def set_in(*blocks: s.Block) -> set[str]:
    """The names of the variables that blocks may give new values to."""
    return {v.name for block in blocks for x in walks.all_statements(block) for v in x.sets()}


class _Flat:
    def __init__(self, names: Names, cells: frozenset[str]) -> None:
        self._names = names
        self._cells = cells
        self._renamed: dict[str, e.Variable] = {}
        self._bound: set[str] = set()
        self._versions: dict[str, e.Expression] = {}
        self._out: list[s.Statement] = []

    def block(self, block: s.Block) -> list[s.Statement]:
        """A block's statements, in steps."""
        outer, self._out = self._out, []
        for x in block:
            self._statement(x)
        made, self._out = self._out, outer
        return made

    def _statement(self, x: s.Statement) -> None:
        match x:
            case s.Let():
                self._let(x)
            case s.Assign():
                value = self._value(x.value, x)
                self._out.append(s.Assign(x.var, value, x.loc))
                self._versions[x.var.name] = value
            case s.If():
                self._if(x)
            case Rounds():
                self._rounds(x)
            case _:
                made = walks.map_operands(x, lambda y: self._operand(y, x))
                if made.blocks():
                    hint = "give the kernel an adjoint of your own by portable.custom_vjp"
                    refuse(f"through {type(x).__name__}", x, hint)
                self._out.append(made)

    def _operand(self, y: e.Expression, x: s.Statement) -> e.Expression:
        if isinstance(y, e.Variable) and y in x.binds():
            return self._bind(y)
        return self._value(y, x)

    def _let(self, x: s.Let) -> None:
        made = self._step(x.value, x)
        self._out.append(s.Let(self._bind(x.var), made, x.loc))

    def _bind(self, var: e.Variable) -> e.Variable:
        """The name that stands for one that is bound here; another one where it was before."""
        made = var
        if var.name in self._bound:
            made = self._names.variable(var.name, var.type)
        self._bound.add(var.name)
        self._renamed[var.name] = made
        return made

    # -- values ----------------------------------------------------------------------------

    def _value(self, x: e.Expression, at: s.Statement) -> e.Expression:
        """A name or number for a float, an expression of names for anything else."""
        if not is_float(x.type):
            return walks.map_expression(x, lambda y: self._leaf(y, at))
        made = self._step(x, at)
        if isinstance(made, e.Const | e.Variable):
            return made
        if isinstance(made, e.Splat) and isinstance(made.x, e.Const):
            return made
        var = self._names.variable("value", made.type)
        self._out.append(s.Let(var, made, at.loc))
        return var

    def _step(self, x: e.Expression, at: s.Statement) -> e.Expression:
        """The operation of a value, on names and numbers."""
        if not is_float(x.type):
            return walks.map_expression(x, lambda y: self._leaf(y, at))
        if isinstance(x, e.Variable):
            return self._leaf(x, at)
        return walks.map_children(x, lambda y: self._value(y, at))

    def _leaf(self, x: e.Expression, at: s.Statement) -> e.Expression:
        if not isinstance(x, e.Variable):
            return x
        if x.name in self._cells:
            return self._read(x, at)
        return self._renamed.get(x.name, x)

    def _read(self, cell: e.Variable, at: s.Statement) -> e.Expression:
        known = self._versions.get(cell.name)
        if known is None:
            var = self._names.variable(cell.name, cell.type)
            self._out.append(s.Let(var, cell, at.loc))
            known = self._versions[cell.name] = var
        return known

    # -- control flow ----------------------------------------------------------------------

    def _if(self, x: s.If) -> None:
        condition = self._value(x.condition, x)
        before = dict(self._versions)
        then = tuple(self.block(x.then))
        self._versions = dict(before)
        orelse = tuple(self.block(x.orelse))
        changed = set_in(x.then, x.orelse)
        self._versions = {name: y for name, y in before.items() if name not in changed}
        self._out.append(s.If(condition, then, orelse, x.loc))

    def _rounds(self, x: Rounds) -> None:
        bounds = x.bounds
        if bounds is not None:
            bounds = self._value(bounds[0], x), self._value(bounds[1], x), self._value(bounds[2], x)
        changed = set_in(x.body)
        for cell in self._cells_read(x.body):
            if cell.name not in changed:
                self._read(cell, x)
        before = {name: y for name, y in self._versions.items() if name not in changed}
        self._versions = dict(before)
        var = None if x.var is None else self._bind(x.var)
        body = tuple(self.block(x.body))
        self._versions = before
        self._out.append(Rounds(var, bounds, x.going, body, x.loc, x.unroll))

    def _cells_read(self, block: s.Block) -> list[e.Variable]:
        cells: dict[str, e.Variable] = {}
        for x in walks.all_statements(block):
            for y in walks.operands(x):
                for z in walks.subexpressions(y):
                    if isinstance(z, e.Variable) and z.name in self._cells:
                        cells.setdefault(z.name, z)
        return list(cells.values())
