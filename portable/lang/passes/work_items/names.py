"""Gives every binding a name of its own, so that a name says where a value comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.walk import all_statements, map_blocks, map_expression, map_operands


def own_names(kernel: Kernel) -> Kernel:
    """The kernel with different names wherever the same one is bound several times."""
    bound: set[str] = set()
    for x in all_statements(kernel.body):
        for var in x.binds():
            if var.name in bound:
                return replace(kernel, body=_Renaming().block(kernel.body, {}))
            bound.add(var.name)
    return kernel


class _Renaming:
    def __init__(self) -> None:
        self._bound: set[str] = set()
        self._count = 0

    def block(self, block: s.Block, names: Mapping[str, str]) -> s.Block:
        """A block in which names stand for others."""
        here = dict(names)
        out: list[s.Statement] = []
        for x in block:
            inner = dict(here)
            for var in x.binds():
                inner[var.name] = self._name(var.name)
            renamed = map_operands(x, lambda y, inner=inner: _renamed(y, inner))  # type: ignore[misc]
            out.append(map_blocks(renamed, lambda y, inner=inner: self.block(y, inner)))  # type: ignore[misc]
            if not x.blocks():
                here = inner
        return tuple(out)

    def _name(self, name: str) -> str:
        if name in self._bound:
            self._count += 1
            return f"{name}@bound{self._count}"
        self._bound.add(name)
        return name


def _renamed(x: e.Expression, names: Mapping[str, str]) -> e.Expression:
    def rename(y: e.Expression) -> e.Expression:
        if isinstance(y, e.Variable) and names.get(y.name, y.name) != y.name:
            return e.Variable(names[y.name], y.type)
        return y

    return map_expression(x, rename)
