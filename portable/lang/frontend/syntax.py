"""Facts about Python's syntax trees, and about IR, that need no translation."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from portable.lang.ir import statements as s

REFUSED: Final[dict[type[ast.stmt], str]] = {
    ast.With: "kernels have no context managers",
    ast.Try: "kernels have no exceptions",
    ast.Raise: "kernels have no exceptions; write a flag to an array",
    ast.Import: "import at the top of the module",
    ast.ImportFrom: "import at the top of the module",
    ast.FunctionDef: "define helpers outside of kernels",
    ast.ClassDef: "define classes outside of kernels",
    ast.Global: "pass arrays as arguments to give results back",
    ast.Nonlocal: "pass arrays as arguments to give results back",
    ast.Delete: "names need no deleting in kernels",
    ast.Match: "write if and elif",
}
"""Statements that kernels have not, and what to write instead."""

_MOST_KNOWN: Final = 2**14
"""Statements of which it is remembered what they are like: helpers are inlined often."""


class Given(ast.expr):
    """Stands in a statement for something that was found out already.

    Attributes
    ----------
    value : anything
        What it stands for.
    run_time : bool
        Whether a loop over it is one of the generated program.
    """

    _fields = ()

    def __init__(self, value: Any, run_time: bool) -> None:
        super().__init__()
        self.value, self.run_time = value, run_time


_RUN_TIME_LOOPS: Final = ("range", "workgroup_range", "vector_range", "elements")


def counted(body: Sequence[ast.stmt]) -> frozenset[str]:
    """The names of loops in a loop's body, which have their last item in its next round."""
    return frozenset().union(*map(_counted_by, body))


def assigned(*blocks: Sequence[ast.stmt]) -> frozenset[str]:
    """Names that statements assign, in whatever nested blocks.

    A loop that is repeated at compile time gives its name a constant each time, which no other loop
    or branch around it is to turn into a variable.
    """
    return frozenset().union(*(_assigned_by(x) for block in blocks for x in block))


@lru_cache(_MOST_KNOWN)
def _counted_by(statement: ast.stmt) -> frozenset[str]:
    """The names of loops in a statement."""
    targets = [node.target for node in ast.walk(statement) if isinstance(node, ast.For)]
    return frozenset(x.id for one in targets for x in ast.walk(one) if isinstance(x, ast.Name))


@lru_cache(_MOST_KNOWN)
def _assigned_by(statement: ast.stmt) -> frozenset[str]:
    nodes = list(ast.walk(statement))
    constants = {
        id(name)
        for node in nodes
        if isinstance(node, ast.For | ast.comprehension)
        for target, over in _loops(node.target, node.iter)
        if not _is_run_time(over)
        for name in ast.walk(target)
    }
    return frozenset(
        node.id
        for node in nodes
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Store)
        and id(node) not in constants
    )


def _loops(target: ast.expr, over: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """What a loop assigns and what it runs over; of ``product(...)`` for each of its parts."""
    if isinstance(over, ast.Call) and _callee(over) == "product" and isinstance(target, ast.Tuple):
        return list(zip(target.elts, over.args, strict=False))
    return [(target, over)]


def _is_run_time(over: ast.expr) -> bool:
    """Whether a loop over this is one of the generated program; others repeat at compile time."""
    if isinstance(over, Given):
        return over.run_time
    return isinstance(over, ast.Call) and _callee(over) in _RUN_TIME_LOOPS


def _callee(call: ast.Call) -> str:
    """The name of what is called, without that of its module."""
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def apart(
    targets: Sequence[ast.expr], body: Sequence[ast.stmt]
) -> tuple[list[ast.expr], list[ast.stmt]]:
    """The names of loops within each other, and their body, for one loop that takes them together.

    The innermost loop's rounds share what the outer ones count. Where the body assigns it, the next
    round is to have it as it was: the body begins by taking it from a name that no source can hold.
    """
    stored = _stored(*body)
    assigned_here, first = list(targets), list[ast.stmt]()
    for at, target in enumerate(targets[:-1]):
        names = _stored(target) - _stored(*targets[at + 1 :])
        if stored & names:
            kept = f"{'_'.join(sorted(names))}'"
            assigned_here[at] = ast.copy_location(ast.Name(kept, ast.Store()), target)
            value = ast.copy_location(ast.Name(kept, ast.Load()), target)
            first.append(ast.copy_location(ast.Assign([target], value), target))
    return assigned_here, [*first, *body]


def _stored(*nodes: ast.AST) -> set[str]:
    """The names that are given something anywhere in nodes."""
    names = [x for node in nodes for x in ast.walk(node) if isinstance(x, ast.Name)]
    return {x.id for x in names if isinstance(x.ctx, ast.Store)}


def has_break(body: Sequence[ast.stmt]) -> bool:
    """Whether a loop's body breaks out of that loop."""
    return any(
        isinstance(x, ast.Break) or (isinstance(x, ast.If) and has_break([*x.body, *x.orelse]))
        for x in body
    )


@lru_cache(_MOST_KNOWN)
def has_return(node: ast.stmt) -> bool:
    """Whether a statement returns, on whatever path."""
    return any(isinstance(inner, ast.Return) for inner in ast.walk(node))


def is_left(body: s.Block, *, inside: bool = False) -> bool:
    """Whether a loop's body may leave it: by a break, if not one of a loop inside, or a return."""
    for statement in body:
        if isinstance(statement, s.Return) or (isinstance(statement, s.Break) and not inside):
            return True
        deeper = inside or not isinstance(statement, s.If)
        if any(is_left(block, inside=deeper) for block in statement.blocks()):
            return True
    return False
