"""Gives every binding a name of its own, so that a name says where a value comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir import walks
from portable.lang.ir.kernel import Kernel


def own_names(kernel: Kernel) -> Kernel:
    """The kernel with different names wherever the same one is bound several times."""
    bound: set[str] = set()
    for x in walks.all_statements(kernel.body):
        for var in x.binds():
            if var.name in bound:
                return replace(kernel, body=_Renaming().block(kernel.body, {}))
            bound.add(var.name)
    return kernel


class _Renaming:
    def __init__(self) -> None:
        self._bound: set[str] = set()
        self._count = 0

    def block(self, block: s.Block, names: Mapping[str, e.Variable]) -> s.Block:
        """A block in which names stand for variables of other names."""
        here = dict(names)
        out: list[s.Statement] = []
        for x in block:
            inner = dict(here)
            for var in x.binds():
                inner[var.name] = e.Variable(self._name(var.name), var.type)
            renamed = walks.map_operands(x, partial(walks.substituted, values=inner))
            out.append(walks.map_blocks(renamed, partial(self.block, names=inner)))
            if not x.blocks():
                here = inner
        return tuple(out)

    def _name(self, name: str) -> str:
        if name in self._bound:
            self._count += 1
            return f"{name}@bound{self._count}"
        self._bound.add(name)
        return name
