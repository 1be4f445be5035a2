"""Walking and rebuilding trees of the IR, so that no pass spells out every node."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from operator import is_
from types import UnionType
from typing import Any, Final, TypeVar

from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.expressions import FieldsOf, Role, Variable, fields_of
from portable.lang.ir.statements import BLOCKS, USED
from portable.lang.ir.types import Array

_Kind = TypeVar("_Kind", bound=s.Statement)
_HOLDERS: Final = ("Expression", "Variable")


_OPERANDS: Final = FieldsOf(
    lambda kind: (f.name for f in fields(kind) if any(word in str(f.type) for word in _HOLDERS))
)
_BACKWARDS: Final = FieldsOf(lambda kind: reversed(_OPERANDS[kind]))
_GIVEN: Final = FieldsOf(lambda kind: (f.name for f in fields(kind) if f.init))
_PARTS: Final = fields_of(*(role for role in Role if role is not Role.BLOCK))


def _outermost(x: Any, names: Iterable[str]) -> list[e.Expression]:
    """The outermost expressions in some fields of a node."""
    expressions: list[e.Expression] = []
    for name in names:
        held = getattr(x, name)
        if isinstance(held, e.Expression):
            expressions.append(held)
        else:
            expressions += _inside(held)
    return expressions


def _inside(x: Any) -> Iterator[e.Expression]:
    """The outermost expressions in a field's value."""
    if isinstance(x, e.Expression):
        yield x
    elif isinstance(x, e.Region):
        yield from x.starts
    elif isinstance(x, tuple):
        for item in x:
            yield from _inside(item)


def children(x: e.Expression) -> list[e.Expression]:
    """The direct operands of an expression."""
    return _outermost(x, _OPERANDS[type(x)])


def subexpressions(x: e.Expression) -> Iterator[e.Expression]:
    """The expression itself and everything below it, from left to right."""
    waiting = [x]
    while waiting:
        expression = waiting.pop()
        yield expression
        for name in _BACKWARDS[type(expression)]:
            held = getattr(expression, name)
            if isinstance(held, e.Expression):
                waiting.append(held)
            else:
                waiting += reversed([*_inside(held)])


def operands(statement: s.Statement) -> list[e.Expression]:
    """The outermost expressions of a statement, not of the blocks in it; variables it sets too."""
    return _outermost(statement, _PARTS[type(statement)])


def reads(statement: s.Statement) -> list[e.Expression]:
    """The outermost expressions of a statement that it evaluates, not of the blocks in it."""
    return _outermost(statement, USED[type(statement)])


def all_statements(block: s.Block) -> Iterator[s.Statement]:
    """Every statement of a block and of the blocks in it, in the order of the text."""
    waiting = [*reversed(block)]
    while waiting:
        statement = waiting.pop()
        yield statement
        if names := BLOCKS[type(statement)]:
            for name in reversed(names):
                waiting += reversed(getattr(statement, name))


def of_kind(block: s.Block, kind: type[_Kind]) -> Iterator[_Kind]:
    """The statements of a class in a block and the blocks in it, in the order of the text."""
    return (x for x in all_statements(block) if isinstance(x, kind))


def holds(block: s.Block, kind: type[s.Statement] | tuple[type, ...] | UnionType) -> bool:
    """Whether a statement of a class, or of one of several, is in a block or the blocks in it."""
    return any(isinstance(x, kind) for x in all_statements(block))


def all_expressions(block: s.Block) -> Iterator[e.Expression]:
    """Every expression and sub-expression in a block and the blocks in it."""
    for statement in all_statements(block):
        for operand in operands(statement):
            yield from subexpressions(operand)


def names_in(*values: e.Expression) -> set[str]:
    """The names of the variables in expressions."""
    return {x.name for value in values for x in subexpressions(value) if isinstance(x, Variable)}


def names_read(*blocks: s.Block) -> set[str]:
    """The names of the variables that statements of blocks, and those in them, evaluate."""
    return {y for block in blocks for x in all_statements(block) for y in names_in(*reads(x))}


def written_arrays(block: s.Block) -> frozenset[Array]:
    """The global arrays that some statement of the block may write."""
    arrays = (x for statement in all_statements(block) for x in statement.written())
    return frozenset(x for x in arrays if isinstance(x, Array) and x.space == "global")


def places(block: s.Block) -> Iterator[e.WorkItem]:
    """Where the block asks for the place of its work-item or workgroup in the ndrange."""
    for x in all_expressions(block):
        if isinstance(x, e.WorkItem) and x.word in ("global_id", "group_id"):
            yield x


def _rebuild(node: Any, names: Iterable[str], transform: Callable[[Any], Any]) -> Any:
    """The node with what some of its fields hold transformed."""
    changes = {}
    for name in names:
        old = getattr(node, name)
        new = transform(old)
        if new is not old:
            changes[name] = new
    return _remade(node, changes) if changes else node


def _changed(
    node: Any, names: Iterable[str], change: Callable[[e.Expression], e.Expression]
) -> Any:
    """The node with the outermost expressions in some of its fields changed."""
    changes = {}
    for name in names:
        old = getattr(node, name)
        new = change(old) if isinstance(old, e.Expression) else _map_inside(old, change)
        if new is not old:
            changes[name] = new
    return _remade(node, changes) if changes else node


def _remade(node: Any, changes: dict[str, Any]) -> Any:
    kind = type(node)
    given = [changes[n] if n in changes else getattr(node, n) for n in _GIVEN[kind]]
    return kind(*given)


def _map_inside(x: Any, change: Callable[[e.Expression], e.Expression]) -> Any:
    if isinstance(x, e.Expression):
        return change(x)
    if isinstance(x, e.Region):
        starts = _map_inside(x.starts, change)
        return x if starts is x.starts else replace(x, starts=starts)
    if not isinstance(x, tuple):
        return x
    items = [_map_inside(i, change) for i in x]
    return x if all(map(is_, items, x)) else tuple(items)


def map_children(x: e.Expression, change: Callable[[e.Expression], e.Expression]) -> e.Expression:
    """Rebuilds an expression with `change` applied to its direct operands."""
    names = _OPERANDS[type(x)]
    if not names:
        return x
    return typing.cast(e.Expression, _changed(x, names, change))


def map_expression(x: e.Expression, change: Callable[[e.Expression], e.Expression]) -> e.Expression:
    """Rebuilds an expression bottom up, `change` being applied to each node after its operands."""
    return change(map_children(x, lambda child: map_expression(child, change)))


def substituted(x: e.Expression, values: Mapping[str, e.Expression]) -> e.Expression:
    """An expression with others in the place of variables, by their names."""
    return map_expression(x, lambda y: values.get(y.name, y) if isinstance(y, Variable) else y)


def resolved(x: e.Expression, values: Mapping[str, e.Expression]) -> e.Expression:
    """An expression without names that were bound to values, which may name others of them."""
    while not names_in(x).isdisjoint(values):
        x = substituted(x, values)
    return x


def map_operands(
    statement: s.Statement, change: Callable[[e.Expression], e.Expression]
) -> s.Statement:
    """Rebuilds a statement with `change` applied to its outermost expressions.

    Blocks inside it are left alone; variables that it sets are passed to `change` as well.
    """
    names = _PARTS[type(statement)]
    return typing.cast(s.Statement, _changed(statement, names, change))


def map_blocks(statement: s.Statement, change: Callable[[s.Block], s.Block]) -> s.Statement:
    """Rebuilds a statement with `change` applied to the blocks directly inside it."""
    names = BLOCKS[type(statement)]
    if not names:
        return statement
    return typing.cast(s.Statement, _rebuild(statement, names, change))


def map_memory(statement: s.Statement, change: Callable[[Array], Array]) -> s.Statement:
    """Rebuilds a statement with `change` applied to the arrays that it touches."""

    def moved(x: e.Region) -> e.Region:
        array = change(x.array)
        return x if array is x.array else replace(x, array=array)

    return _map_held(statement, lambda x: change(x) if isinstance(x, Array) else moved(x))


def with_arrays(block: s.Block, new: Mapping[Array, Array]) -> s.Block:
    """The block with every array that is a key of `new` replaced, where extents are asked too."""
    if not new:
        return block

    def extent(x: e.Expression) -> e.Expression:
        return replace(x, array=new[x.array]) if isinstance(x, e.Extent) and x.array in new else x

    def statement(x: s.Statement) -> s.Block:
        x = map_operands(x, lambda y: map_expression(y, extent))
        return (map_memory(x, lambda array: new.get(array, array)),)

    return map_block(block, statement)


def map_regions(statement: s.Statement, change: Callable[[e.Region], e.Region]) -> s.Statement:
    """Rebuilds a statement with `change` applied to the regions of arrays that it touches."""
    return _map_held(statement, lambda x: change(x) if isinstance(x, e.Region) else x)


def _map_held(statement: s.Statement, change: Callable[[Any], Any]) -> s.Statement:
    def inside(x: Any) -> Any:
        if isinstance(x, Array | e.Region):
            return change(x)
        if isinstance(x, tuple):
            items = tuple(inside(i) for i in x)
            return x if all(new is old for new, old in zip(items, x, strict=True)) else items
        return x

    names = _PARTS[type(statement)]
    return typing.cast(s.Statement, _rebuild(statement, names, inside))


def map_block(block: s.Block, change: Callable[[s.Statement], s.Block]) -> s.Block:
    """Rebuilds a block bottom up: each statement, inner blocks done, gives any number of others."""
    out: list[s.Statement] = []
    for statement in block:
        out.extend(change(map_blocks(statement, lambda inner: map_block(inner, change))))
    return tuple(out)


def map_values(block: s.Block, change: Callable[[e.Expression], e.Expression]) -> s.Block:
    """Rebuilds a block with `change` applied to its outermost expressions, inner blocks' too.

    Variables that statements set are passed to `change` as well.
    """
    return map_block(block, lambda x: (map_operands(x, change),))
