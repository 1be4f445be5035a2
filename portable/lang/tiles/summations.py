"""Accumulators that are filled, summed up in one loop and stored: what their holder may fuse.

Most products are written so. Who holds the sums of a tile in registers while it multiplies can
begin them there in the loop's first round, and finish and store them there in its last.

What is done to each element of a matrix, done to a vector of neighbours in a row instead.

That is for plain arithmetic, in which numbers that are the same for all elements may take part.
Compilers of kernels make vectors of work-items, not of a lone one's loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, cast

from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import (
    all_expressions,
    all_statements,
    children,
    map_children,
    subexpressions,
)
from portable.lang.ir.pipeline import Pipeline
from portable.lang.ir.types import Fragment, Vector
from portable.lang.tiles.work import Code, add

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


@dataclass(frozen=True, slots=True)
class Summation:
    """The statements about an accumulator, which follow each other in one block.

    Attributes
    ----------
    fill : FragmentFill
        With a constant.
    loop : Pipeline
    elements : ForElements or None
        What happens to each sum; it can be done to vectors of neighbours.
    store : FragmentStore
        Of all of it.
    """

    fill: s.FragmentFill
    loop: Pipeline
    elements: s.ForElements | None
    store: s.FragmentStore

    @property
    def first(self) -> e.Expression:
        """Whether this is the loop's first round."""
        return e.Compare("eq", self.loop.var, self.loop.start)

    @property
    def last(self) -> e.Expression:
        """Whether this is the loop's last round."""
        return e.Compare("ge", add(self.loop.var, self.loop.step), self.loop.stop)

    @property
    def never(self) -> e.Expression:
        """Whether the loop has no round."""
        return e.Compare("ge", self.loop.start, self.loop.stop)


def summations(body: s.Block) -> dict[Fragment, Summation]:
    """Those of a kernel, by accumulator."""
    uses: dict[Fragment, int] = {}
    for x in all_statements(body):
        for thing in set(x.touched()):
            if isinstance(thing, Fragment):
                uses[thing] = uses.get(thing, 0) + 1
    sums = (_summation(block, at, uses) for block in _blocks(body) for at in range(len(block)))
    return {x.fill.fragment: x for x in sums if x is not None}


def _blocks(block: s.Block) -> Iterator[s.Block]:
    yield block
    for x in block:
        for inner in x.blocks():
            yield from _blocks(inner)


def _summation(block: s.Block, at: int, uses: dict[Fragment, int]) -> Summation | None:
    """The summation whose loop is a statement of a block."""
    loop, after = block[at], block[at + 1 : at + 3]
    if not isinstance(loop, Pipeline) or not after:
        return None
    total = loop.multiply.accumulator
    fills = [x for x in block[:at] if isinstance(x, s.FragmentFill) and x.fragment is total]
    elements = after[0] if isinstance(after[0], s.ForElements) else None
    store = after[-1] if elements is not None else after[0]
    if len(fills) != 1 or not isinstance(store, s.FragmentStore) or store.fragment is not total:
        return None
    known = isinstance(fills[0].value, e.Const)
    alone = uses[total] == (3 if elements is None else 4)
    fused = Summation(fills[0], loop, elements, store)
    return fused if known and alone and _may_store_in_loop(fused) else None


def _may_store_in_loop(x: Summation) -> bool:
    """Whether sums may be finished in the last round, a part at a time."""
    inside = list(all_statements(x.loop.body))
    touched = {y for z in inside for y in z.touched()}
    if x.store.target.joined or x.store.target.array in touched:
        return False
    read = {y for start in x.store.target.starts for y in subexpressions(cast(e.Expression, start))}
    if x.elements is not None:
        if not x.elements.writes or not is_for_vectors(x.elements):
            return False
        read |= set(all_expressions(x.elements.body)) - {x.elements.value}
    return not read & {y.var for y in inside if isinstance(y, s.Assign)}
