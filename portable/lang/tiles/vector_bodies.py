"""What is done to each element of a matrix, done to a vector of neighbours in a row instead.

That is for plain arithmetic, in which numbers that are the same for all elements may take part.
Compilers of kernels make vectors of work-items, not of a lone one's loops.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import children, map_children, subexpressions
from portable.lang.ir.types import Vector
from portable.lang.tiles.work import Code

_PLAIN: Final = (e.Const, e.Variable, e.Extent, e.Stride, e.WorkItem)
_LANEWISE: Final = (e.Binary, e.Unary, e.Compare, e.Select, e.Call)


def is_for_vectors(x: s.ForElements) -> bool:
    """Whether the body does the same to all columns and reads no memory."""
    if not all(isinstance(y, s.Let) or _sets(x, y) for y in x.body):
        return False
    used = [y for statement in _needed(x) for y in subexpressions(_value(statement))]
    return x.column not in used and all(isinstance(y, (*_PLAIN, *_LANEWISE)) for y in used)


def for_vector(
    code: Code, x: s.ForElements, row: e.Expression, values: e.Expression
) -> e.Expression:
    """What the body makes of neighbours.

    Parameters
    ----------
    code : Code
        Where to write it.
    x : ForElements
        One that `is_for_vectors`.
    row : Expression
        The row of the elements.
    values : Expression
        The elements, a vector or, where vectors have one lane, a scalar.
    """
    known: dict[e.Expression, e.Expression] = {x.value: values, x.row: row}
    for statement in _needed(x):
        value = _widened(_value(statement), known)
        known[_variable(statement)] = code.let(_variable(statement).name, value)
    return known[x.value]


def _sets(x: s.ForElements, statement: s.Statement) -> bool:
    return isinstance(statement, s.Assign) and statement.var == x.value


def _value(statement: s.Statement) -> e.Expression:
    assert isinstance(statement, s.Let | s.Assign)
    return statement.value


def _variable(statement: s.Statement) -> e.Variable:
    assert isinstance(statement, s.Let | s.Assign)
    return statement.var


def _needed(x: s.ForElements) -> list[s.Statement]:
    """The statements of the body on which the new value depends."""
    wanted: set[e.Expression] = {x.value}
    statements: list[s.Statement] = []
    for statement in reversed(x.body):
        if _variable(statement) in wanted:
            statements.append(statement)
            wanted |= set(subexpressions(_value(statement)))
    return statements[::-1]


def _widened(x: e.Expression, known: dict[e.Expression, e.Expression]) -> e.Expression:
    """An expression in which some names stand for vectors; scalars beside these are spread."""
    if x in known:
        return known[x]
    parts = [_widened(part, known) for part in children(x)]
    wide = next((part.type for part in parts if isinstance(part.type, Vector)), None)
    new = iter(parts if wide is None else [_spread(part, wide.lanes) for part in parts])
    made = map_children(x, lambda _: next(new))
    if wide is not None and isinstance(made, e.Call):
        made = replace(made, type=Vector(made.type, wide.lanes))  # type: ignore[arg-type]
    return made


def _spread(x: e.Expression, lanes: int) -> e.Expression:
    """A scalar in all lanes."""
    return x if isinstance(x.type, Vector) else e.Splat(x, Vector(x.type, lanes))
