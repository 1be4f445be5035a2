"""Products whose accumulators are filled, summed in one mainloop, and stored by an epilogue.

Most are written so. A strategy that holds the sums of a tile in registers can begin them there in
the mainloop's first round, and run the epilogue and store from there in its last.

The epilogue is made for a vector of neighbours in a row at a time, since compilers of kernels make
vectors of work-items, not of the loops of a single one. That takes plain arithmetic on the element
and on numbers that are the same for all elements, for a row, or for a column, and on elements of
arrays whose rows lie as the result's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeGuard

from portable.dtypes import DType
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.nodes import both, like, splat
from portable.lang.ir.pipeline import Pipeline
from portable.lang.ir.types import Fragment, Vector, scalar_of, vector_type
from portable.lang.ir.walks import (
    all_expressions,
    all_statements,
    children,
    map_children,
    resolved,
    subexpressions,
)
from portable.lang.tiles.work import Code, add

_PLAIN: Final = (e.Const, e.Variable, e.Extent, e.WorkItem)
_LANEWISE: Final = (e.Binary, e.Unary, e.Compare, e.Select, e.Call)


Known = dict[e.Expression, e.Expression]
"""What stands for the names of a body."""


def is_for_vectors(x: s.ForElements) -> bool:
    """Whether the body does the same to all columns, and reads what a vector of these has."""
    if not all(isinstance(y, s.Let | s.Load) or _sets(x, y) for y in x.body):
        return False
    needs = _needs(x)
    for statement in _needed(x):
        if not all(isinstance(y, (*_PLAIN, *_LANEWISE)) for y in _used(statement)):
            return False
        if _is_beside(statement, x):
            continue
        needed = needs[_variable(statement)] & {x.value, x.column}
        if isinstance(statement, s.Load) and (needed or not _is_plain(statement)):
            return False
        if x.value in needed and any(x.column in needs.get(y, ()) for y in _used(statement)):
            return False
    return x.value in needs.get(x.value, ())


def are_neighbours(x: s.ForElements, column: e.Expression, lanes: int) -> e.Expression | None:
    """Whether so many columns are neighbours in the arrays that are read beside the element."""
    ends = [
        [
            _widened(_resolved(x, y.index[-1]), {x.column: at})
            for at in (column, add(column, lanes - 1))
        ]
        for y in _needed(x)
        if _is_beside(y, x)
    ]
    return both(*(e.Compare("eq", last, add(first, lanes - 1)) for first, last in ends))


def for_vector(
    code: Code, x: s.ForElements, row: e.Expression, column: e.Expression, values: e.Expression
) -> e.Expression:
    """What the body makes of neighbours.

    Parameters
    ----------
    code : Code
        Where to write it.
    x : ForElements
        One that `is_for_vectors`.
    row, column : Expression
        The row of the elements, and the first one's column.
    values : Expression
        The elements, a vector or a scalar.
    """
    known: Known = {x.value: values, x.row: row, x.column: column}
    lanes = values.type.lanes if isinstance(values.type, Vector) else 1
    for statement in _needed(x):
        wide = lanes if _is_beside(statement, x) else 1
        known[_variable(statement)] = _made(code, statement, known, wide)
    return known[x.value]


def reads_beside(x: s.ForElements) -> bool:
    """Whether elements of arrays are read at the element's own row and column."""
    return any(_is_beside(y, x) and x.row in _places(y, x)[0] for y in _needed(x))


def _made(code: Code, statement: s.Statement, known: Known, lanes: int) -> e.Expression:
    """What a statement binds where names stand for others, of so many lanes if it reads these."""
    var = _variable(statement)
    if isinstance(statement, s.Load):
        assert isinstance(var.type, DType)
        index = tuple(_widened(at, known) for at in statement.index)
        return code.load(statement.array, index, vector_type(var.type, lanes))
    assert isinstance(statement, s.Let | s.Assign)
    return code.let(var.name, _widened(statement.value, known))


def _sets(x: s.ForElements, statement: s.Statement) -> bool:
    return isinstance(statement, s.Assign) and statement.var == x.value


def _is_plain(x: s.Load) -> bool:
    """Whether it reads one number of a global array."""
    return x.array.space == "global" and x.component is None and not isinstance(x.var.type, Vector)


def _used(statement: s.Statement) -> set[e.Expression]:
    """Expressions of which a statement makes what it binds."""
    if isinstance(statement, s.Load):
        return {y for at in statement.index for y in subexpressions(at)}
    assert isinstance(statement, s.Let | s.Assign)
    return set(subexpressions(statement.value))


def _variable(statement: s.Statement) -> e.Variable:
    assert isinstance(statement, s.Let | s.Assign | s.Load)
    return statement.var


def _needs(x: s.ForElements) -> dict[e.Expression, set[e.Expression]]:
    """Of which of value, row and column each variable is made; of a value if it is read beside."""
    needs: dict[e.Expression, set[e.Expression]] = {y: {y} for y in (x.value, x.row, x.column)}
    for statement in _needed(x):
        made_of = [needs[y] for y in _used(statement) if y in needs]
        beside = _is_beside(statement, x)
        needs[_variable(statement)] = {x.value} if beside else set().union(*made_of)
    return needs


def _is_beside(load: s.Statement, x: s.ForElements) -> TypeGuard[s.Load]:
    """Whether it reads neighbours in a row for neighbours, unless these are clamped."""
    if not (isinstance(load, s.Load) and _is_plain(load)):
        return False
    rows, columns = _places(load, x)
    apart = not rows & {x.value, x.column} and columns & {x.value, x.row, x.column} == {x.column}
    in_line = load.array.strides[-1:] == ("unit",)
    return apart and in_line and _goes_on(_resolved(x, load.index[-1]), x.column)


def _places(load: s.Load, x: s.ForElements) -> tuple[set[e.Expression], set[e.Expression]]:
    """Of which expressions the first indices are made, and the last one."""
    *rows, column = (set(subexpressions(_resolved(x, at))) for at in load.index)
    return set().union(*rows), column


def _resolved(x: s.ForElements, at: e.Expression) -> e.Expression:
    """An expression without the names that the body binds."""
    return resolved(at, {y.var.name: y.value for y in x.body if isinstance(y, s.Let)})


def _goes_on(at: e.Expression, column: e.Expression) -> bool:
    """Whether an index grows by one at most from column to column, and never falls."""
    if at == column or column not in set(subexpressions(at)):
        return True
    if isinstance(at, e.Select):
        return column not in set(subexpressions(at.condition)) and all(
            _goes_on(y, column) for y in (at.x, at.y)
        )
    if not isinstance(at, e.Binary) or at.op not in ("add", "min", "max"):
        return False
    fixed = sum(column not in set(subexpressions(y)) for y in (at.x, at.y))
    return fixed >= (at.op == "add") and _goes_on(at.x, column) and _goes_on(at.y, column)


def _needed(x: s.ForElements) -> list[s.Statement]:
    """The statements of the body on which the new value depends."""
    wanted: set[e.Expression] = {x.value}
    statements: list[s.Statement] = []
    for statement in reversed(x.body):
        if _variable(statement) in wanted:
            statements.append(statement)
            wanted |= _used(statement)
    return statements[::-1]


def _widened(x: e.Expression, known: Known) -> e.Expression:
    """An expression in which some names stand for vectors; scalars beside these are spread."""
    if x in known:
        return known[x]
    parts = [_widened(part, known) for part in children(x)]
    wide = next((part.type for part in parts if isinstance(part.type, Vector)), None)
    spread = parts if wide is None else [splat(x, like(wide, scalar_of(x.type))) for x in parts]
    new = iter(spread)
    made = map_children(x, lambda _: next(new))
    if wide is not None and isinstance(made, e.Call):
        made = replace(made, type=Vector(made.type, wide.lanes))  # type: ignore[arg-type]
    return made


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
    def later(self) -> e.Expression:
        """Whether rounds of the loop came before this one."""
        return e.Compare("ne", self.loop.var, self.loop.start)

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
    loop = block[at]
    # To a work-item that is alone barriers are nothing.
    after = [x for x in block[at + 1 :] if not isinstance(x, s.Barrier)][:2]
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
    read = {y for start in x.store.target.starts for y in subexpressions(start)}
    if x.elements is not None:
        read_there = {y.array for y in x.elements.body if isinstance(y, s.Load)}
        if not x.elements.writes or not is_for_vectors(x.elements):
            return False
        if x.store.target.array in read_there:
            return False
        read |= set(all_expressions(x.elements.body)) - {x.elements.value}
    return not read & {y.var for y in inside if isinstance(y, s.Assign)}
