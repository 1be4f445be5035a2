"""Values that are worked out again wherever they are needed, which costs less than keeping them.

Places in the ndrange and what follows from them in a few steps are of this kind: a load of a kept
value costs about as much as they do, and takes room in the first cache.
"""

from __future__ import annotations

from typing import Final

from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Vector
from portable.lang.ir.walk import all_statements, subexpressions
from portable.lang.passes.work_items.uniform import names_in

__all__ = ["recomputed"]

_MOST: Final = 24
"""The cost up to which a value is worked out again, those that it is made from included."""

_COSTS: Final = {"quot": 6, "rem": 6, "floordiv": 8, "mod": 8, "div": 6}
_FREE: Final = (e.Const, e.Variable, e.WorkItem, e.Extent, e.Stride, e.AssumeUniform)


def recomputed(kernel: Kernel, body: s.Block, varying: set[str]) -> dict[str, s.Let]:
    """The bindings of varying names that are worked out again, in the order of the text.

    Parameters
    ----------
    kernel : Kernel
    body : Block
        Of the kernel.
    varying : set of str
        The names whose values differ among work-items.
    """
    statements = list(all_statements(body))
    bound: dict[str, int] = {}
    for x in statements:
        for var in x.binds():
            bound[var.name] = bound.get(var.name, 0) + 1
    lasting = {name for name, count in bound.items() if count == 1 and name not in varying}
    lasting |= {p.name for p in kernel.parameters if isinstance(p, e.Variable)}
    found: dict[str, s.Let] = {}
    costs: dict[str, int] = {}
    for x in statements:
        if not isinstance(x, s.Let) or x.var.name not in varying or bound[x.var.name] > 1:
            continue
        names = names_in((x.value,))
        if not names <= lasting | found.keys():
            continue
        cost = _cost(x.value) + sum(costs.get(name, 0) for name in names)
        if cost <= _MOST and not isinstance(x.var.type, Vector):
            found[x.var.name], costs[x.var.name] = x, cost
    return found


def _cost(x: e.Expression) -> int:
    """What it takes to work an expression out, in units of an addition."""
    total = 0
    for y in subexpressions(x):
        if isinstance(y, e.Call):
            return _MOST + 1
        if isinstance(y, e.Binary):
            total += _COSTS.get(y.op, 1)
        elif not isinstance(y, _FREE):
            total += 1
    return total
