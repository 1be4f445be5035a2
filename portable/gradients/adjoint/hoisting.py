"""Additions to an element that a loop does not change: one after it, of what its rounds summed up.

An element that a work-item reads in every round of a loop, such as its own place beside those of
its neighbours, would be added to atomically in every round.
"""

from __future__ import annotations

from functools import reduce

from portable.gradients.adjoint.names import Names, zero
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.types import Array
from portable.lang.ir.walks import all_statements, map_block, names_in


def after_loops(
    body: s.Block, names: Names, sub_group_size: int
) -> tuple[s.Block, list[e.Variable]]:
    """A body with such additions behind loops, and the variables that sum up.

    Nothing is added where the sum is nought, as where no round came to the addition; nor to local
    memory, where work-items wait for each other, if many run side by side.
    """
    cells: list[e.Variable] = []

    def change(x: s.Statement) -> s.Block:
        return _hoisted(x, names, cells) if isinstance(x, s.For | s.Loop) else (x,)

    def some(x: s.Statement) -> s.Block:
        here = isinstance(x, s.Atomic) and _is_sum(x) and x.array.space == "local"
        return (_unless_nought(x),) if here and isinstance(x, s.Atomic) else (x,)

    moved = map_block(body, change)
    return (map_block(moved, some) if sub_group_size > 1 else moved), cells


def _hoisted(loop: s.For | s.Loop, names: Names, cells: list[e.Variable]) -> s.Block:
    sums: dict[tuple[Array, tuple[e.Expression, ...]], tuple[e.Variable, s.Atomic]] = {}
    inside = list(all_statements((loop,)))
    changed = {v.name for x in inside for v in (*x.binds(), *x.sets())}
    accessed = {x.array for x in inside if isinstance(x, s.Load | s.Store)}

    def change(x: s.Statement) -> s.Block:
        if not isinstance(x, s.Atomic) or not _is_sum(x) or x.array in accessed:
            return (x,)
        if not all(names_in(i).isdisjoint(changed) for i in x.index):
            return (x,)
        assert x.value is not None
        key = x.array, x.index
        if key not in sums:
            sums[key] = names.variable("sum", x.value.type), x
        total = sums[key][0]
        return (s.Assign(total, e.Binary("add", total, x.value), x.loc),)

    (made,) = map_block((loop,), change)
    cells += [total for total, _ in sums.values()]
    before = [s.Assign(total, zero(total.type), x.loc) for total, x in sums.values()]
    rows: dict[tuple[Array, tuple[e.Expression, ...]], list[s.Atomic]] = {}
    for total, x in sums.values():
        addition = s.Atomic(None, "add", x.array, x.index, total, None, x.order, x.scope, x.loc)
        rows.setdefault((x.array, x.index[:-1]), []).append(addition)
    return (*before, made, *(_unless_nought(*row) for row in rows.values()))


def _is_sum(x: s.Atomic) -> bool:
    return x.op == "add" and x.var is None and x.value is not None and x.array.dtype.is_float


def _unless_nought(*row: s.Atomic) -> s.Statement:
    """Additions to a row, where one of them adds something."""
    values = [x.value for x in row if x.value is not None]
    some: list[e.Expression] = [e.Compare("ne", x, zero(x.type)) for x in values]
    return s.If(reduce(lambda x, y: e.Binary("or", x, y), some), row, (), row[0].loc)
