"""Functions of the project with a fault in them, for as long as a process lives."""

from __future__ import annotations
import __future__

import ast
import importlib
import inspect
import linecache
import textwrap
from collections.abc import Callable
from functools import partial
from types import CodeType, FunctionType
from typing import Any

from portable.lang.frontend.source import function_source
from tests.faults.fault import Change


class PlaceError(Exception):
    """The place of a fault is not in the function (any more), or not as often as was said."""


def plant(change: Change) -> None:
    """Changes a function for good; kernels that were compiled from it already do not notice."""
    function = _function(change.where)
    name = f"<{change.where}>"
    text = changed_text(change)
    module = compile(text, name, "exec", flags=__future__.annotations.compiler_flag)
    function.__code__ = _code_of(module, function.__name__)
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    function_source.cache_clear()


def changed_text(change: Change) -> str:
    """The function's text with the fault in it.

    Raises
    ------
    PlaceError
        If the text to be changed does not stand there as often as the change says.
    """
    source = textwrap.dedent(inspect.getsource(_function(change.where)))
    tree = ast.parse(source)
    places = _places(tree, change)
    if len(places) != change.of:
        raise PlaceError(
            f"{change.old!r} stands {len(places)} times in {change.where}, not {change.of}: "
            "the fault's place has moved; bring tests/faults/table up to date"
        )
    places[change.which]()
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _function(where: str) -> FunctionType:
    """The Python function behind ``"module:name"``, perhaps a kernel or a helper of kernels."""
    module, _, name = where.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        if not hasattr(found, part):
            raise PlaceError(f"there is no {name} in {module}; bring tests/faults/table up to date")
        found = getattr(found, part)
    found = found.fget if isinstance(found, property) else found
    found = inspect.unwrap(getattr(found, "python", found))
    assert isinstance(found, FunctionType), f"{where} is no function"
    return found


def _code_of(module: CodeType, name: str) -> CodeType:
    codes = [x for x in module.co_consts if isinstance(x, CodeType)]
    return next(x for x in codes if x.co_name == name)


def _places(tree: ast.AST, change: Change) -> list[Callable[[], None]]:
    """What makes the change at each place that reads like `Change.old`, in the order of the text.

    Statements take the place of statements, an expression that of an expression.
    """
    old, new = _parsed(change.old), _parsed(change.new)
    by_value = _is_expression(old) and _is_expression(new)
    wanted = [_described(x) for x in (_values(old) if by_value else old)]
    replacement: list[Any] = [*_values(new)] if by_value else [*new]
    found: list[tuple[tuple[int, int], Callable[[], None]]] = []
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                for i in range(len(value)):
                    if [_described(x) for x in value[i : i + len(wanted)]] == wanted:
                        change_it = partial(_put, value, slice(i, i + len(wanted)), replacement)
                        found.append((_position(value[i]), change_it))
            elif by_value and [_described(value)] == wanted:
                found.append((_position(value), partial(setattr, node, name, replacement[0])))
    return [change_it for _, change_it in sorted(found, key=lambda pair: pair[0])]


def _put(body: list[Any], where: slice, new: list[Any]) -> None:
    body[where] = new


def _position(node: Any) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _parsed(text: str) -> list[ast.stmt]:
    return ast.parse(textwrap.dedent(text)).body


def _is_expression(body: list[ast.stmt]) -> bool:
    return len(body) == 1 and isinstance(body[0], ast.Expr)


def _values(body: list[ast.stmt]) -> list[ast.expr]:
    return [x.value for x in body if isinstance(x, ast.Expr)]


def _described(node: Any) -> str:
    """What a piece of text says, however it is laid out, and whether it is read or written."""
    return ast.dump(node).replace("ctx=Store()", "ctx=Load()") if isinstance(node, ast.AST) else ""
