"""Variables that a block reads before it has given them a value."""

from __future__ import annotations

from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import all_statements, reads, subexpressions


def exposed(block: s.Block) -> list[e.Variable]:
    """Those variables, in order; names that are bound in it are none."""
    bound = {v.name for x in all_statements(block) for v in x.binds()}
    variables: dict[str, e.Variable] = {}
    _look(block, set(bound), variables)
    return list(variables.values())


def _look(block: s.Block, given: set[str], variables: dict[str, e.Variable]) -> set[str]:
    """Adds what is read without a value; what surely has one after the block."""
    for x in block:
        for y in reads(x):
            for z in subexpressions(y):
                if isinstance(z, e.Variable) and z.name not in given:
                    variables.setdefault(z.name, z)
        if isinstance(x, s.If):
            branches = [_look(part, set(given), variables) for part in (x.then, x.orelse)]
            given |= branches[0] & branches[1]
        elif x.blocks():
            for part in x.blocks():
                _look(part, set(given), variables)
        given |= {v.name for v in x.sets()}
    return given
