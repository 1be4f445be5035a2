"""Walking and rebuilding trees of the IR, so that no pass spells out every node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, cast

from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.types import Array, Region

__all__ = [
    "all_expressions",
    "all_statements",
    "blocks",
    "children",
    "map_block",
    "map_blocks",
    "map_children",
    "map_expression",
    "map_operands",
    "operands",
    "places",
    "subexpressions",
    "written_arrays",
]

_FIELDS: dict[type, tuple[str, ...]] = {}


def _field_names(kind: type) -> tuple[str, ...]:
    names = _FIELDS.get(kind)
    if names is None:
        names = _FIELDS[kind] = tuple(f.name for f in fields(kind) if f.init)
    return names


def _is_expression(x: object) -> bool:
    return isinstance(x, e.Expression)


def _inside(x: Any) -> Iterator[e.Expression]:
    """The outermost expressions in a field's value."""
    if _is_expression(x):
        yield x
    elif isinstance(x, Region):
        yield from cast(tuple[e.Expression, ...], x.starts)
    elif isinstance(x, tuple):
        for item in x:
            if not isinstance(item, s.Statement):
                yield from _inside(item)


def children(x: e.Expression) -> Iterator[e.Expression]:
    """The direct operands of an expression."""
    for name in _field_names(type(x)):
        yield from _inside(getattr(x, name))


def subexpressions(x: e.Expression) -> Iterator[e.Expression]:
    """The expression itself and everything below it."""
    yield x
    for child in children(x):
        yield from subexpressions(child)


def operands(statement: s.Statement) -> Iterator[e.Expression]:
    """The outermost expressions of a statement, not of the blocks in it; variables it sets too."""
    for name in _field_names(type(statement)):
        yield from _inside(getattr(statement, name))


def blocks(statement: s.Statement) -> Iterator[s.Block]:
    """The blocks directly inside a statement."""
    if isinstance(statement, s.If):
        yield statement.then
        yield statement.orelse
    elif isinstance(statement, s.For | s.Loop | s.ForElements):
        yield statement.body


def all_statements(block: s.Block) -> Iterator[s.Statement]:
    """Every statement of a block and of the blocks in it, in the order of the text."""
    for statement in block:
        yield statement
        for inner in blocks(statement):
            yield from all_statements(inner)


def all_expressions(block: s.Block) -> Iterator[e.Expression]:
    """Every expression and sub-expression in a block and the blocks in it."""
    for statement in all_statements(block):
        for operand in operands(statement):
            yield from subexpressions(operand)


def written_arrays(block: s.Block) -> frozenset[Array]:
    """The global arrays that some statement of the block may write."""
    found: set[Array] = set()
    for statement in all_statements(block):
        match statement:
            case s.Store(array=array):
                found.add(array)
            case s.Atomic(array=array, op=op) if op != "load":
                found.add(array)
            case s.CopyTile(target=region) | s.FragmentStore(target=region):
                found.add(region.array)
            case s.CopyVector(target=array) | s.BulkCopy(target=array):
                found.add(array)
            case s.Instruction(addresses=((array, _), *_)):
                found.add(array)
            case _:
                pass
    return frozenset(a for a in found if a.space == "global")


def places(block: s.Block) -> Iterator[e.WorkItem]:
    """Where the block asks for the place of its work-item or workgroup in the ndrange."""
    for x in all_expressions(block):
        if isinstance(x, e.WorkItem) and x.word in ("global_id", "group_id"):
            yield x


def _rebuild(node: Any, transform: Callable[[Any], Any]) -> Any:
    changes = {}
    for name in _field_names(type(node)):
        old = getattr(node, name)
        new = transform(old)
        if new is not old:
            changes[name] = new
    return replace(node, **changes) if changes else node


def _map_inside(x: Any, change: Callable[[e.Expression], e.Expression]) -> Any:
    if _is_expression(x):
        return change(x)
    if isinstance(x, Region):
        starts = _map_inside(x.starts, change)
        return x if starts is x.starts else replace(x, starts=starts)
    if isinstance(x, tuple):
        items = tuple(i if isinstance(i, s.Statement) else _map_inside(i, change) for i in x)
        return x if all(new is old for new, old in zip(items, x, strict=True)) else items
    return x


def map_children(x: e.Expression, change: Callable[[e.Expression], e.Expression]) -> e.Expression:
    """Rebuilds an expression with `change` applied to its direct operands."""
    return cast(e.Expression, _rebuild(x, lambda old: _map_inside(old, change)))


def map_expression(x: e.Expression, change: Callable[[e.Expression], e.Expression]) -> e.Expression:
    """Rebuilds an expression bottom up, `change` being applied to each node after its operands."""
    return change(map_children(x, lambda child: map_expression(child, change)))


def map_operands(
    statement: s.Statement, change: Callable[[e.Expression], e.Expression]
) -> s.Statement:
    """Rebuilds a statement with `change` applied to its outermost expressions.

    Blocks inside it are left alone; variables that it sets are passed to `change` as well.
    """
    return cast(s.Statement, _rebuild(statement, lambda old: _map_inside(old, change)))


def map_blocks(statement: s.Statement, change: Callable[[s.Block], s.Block]) -> s.Statement:
    """Rebuilds a statement with `change` applied to the blocks directly inside it."""
    match statement:
        case s.If():
            return replace(statement, then=change(statement.then), orelse=change(statement.orelse))
        case s.For() | s.Loop() | s.ForElements():
            return replace(statement, body=change(statement.body))
        case _:
            return statement


def map_block(block: s.Block, change: Callable[[s.Statement], s.Block]) -> s.Block:
    """Rebuilds a block bottom up: each statement, inner blocks done, gives any number of others."""
    out: list[s.Statement] = []
    for statement in block:
        out.extend(change(map_blocks(statement, lambda inner: map_block(inner, change))))
    return tuple(out)
