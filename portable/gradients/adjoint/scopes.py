"""Variables for names that are used outside of the blocks that bind them."""

from __future__ import annotations

from dataclasses import replace

from portable.gradients.adjoint.names import Names, zero
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir import walks
from portable.lang.ir.kernel import Kernel


def kept_in_variables(kernel: Kernel, names: Names) -> Kernel:
    """The kernel with such names as variables, which begin as nought."""
    escaping: dict[str, e.Variable] = {}
    _look(kernel.body, set(), {}, escaping)
    if not escaping:
        return kernel
    cells = {name: names.variable(name, var.type) for name, var in escaping.items()}

    def change(x: s.Statement) -> s.Block:
        made = walks.map_operands(x, lambda y: walks.map_expression(y, read))
        bound = [v for v in x.binds() if v.name in cells]
        if not bound:
            return (made,)
        if isinstance(made, s.Let):
            return (s.Assign(cells[x.binds()[0].name], made.value, x.loc),)
        kept = {v: names.variable(v.name, v.type) for v in bound}
        made = walks.map_operands(
            x,
            lambda y: (
                kept[y]
                if isinstance(y, e.Variable) and y in kept
                else walks.map_expression(y, read)
            ),
        )
        return (made, *(s.Assign(cells[v.name], kept[v], x.loc) for v in bound))

    def read(x: e.Expression) -> e.Expression:
        return cells.get(x.name, x) if isinstance(x, e.Variable) else x

    body = walks.map_block(kernel.body, change)
    first = tuple(s.Assign(x, zero(x.type), kernel.loc) for x in cells.values())
    variables = (*kernel.variables, *cells.values())
    return replace(kernel, body=(*first, *body), variables=variables)


def _look(
    block: s.Block,
    seen: set[str],
    bound: dict[str, e.Variable],
    escaping: dict[str, e.Variable],
) -> None:
    """Finds names that are bound but not in sight where they are used.

    Parameters
    ----------
    block : Block
    seen : set of str
        What is in sight.
    bound : dict
        All names that were bound so far.
    escaping : dict
        Those that were found.
    """
    here = set(seen)
    for x in block:
        variables = {v.name: v for v in x.binds()}
        for y in walks.operands(x):
            for name in sorted(walks.names_in(y) - variables.keys()):  # alike in each process
                if name in bound and name not in here:
                    escaping[name] = bound[name]
        bound.update(variables)
        for inner in x.blocks():
            _look(inner, here | variables.keys(), bound, escaping)
        if not x.blocks():
            here |= variables.keys()
