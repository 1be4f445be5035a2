"""The text of a Python function, its syntax tree, and what names in it stand for."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import CodeType
from typing import Any, Final

from portable.errors import KernelError, Location

LAMBDA: Final = "<lambda>"
_PLAIN: Final = "kernels and their helper functions are defined by 'def'"


@dataclass(frozen=True, eq=False)
class FunctionSource:
    """A Python function's syntax tree and where its names come from.

    Attributes
    ----------
    function : callable
        The Python function.
    tree : ast.FunctionDef
        Its definition; line numbers count from the start of the file.
    file : str
        The file's path.
    lines : tuple of str
        The lines of the definition, decorators included, as they stand in the file.
    first_line : int
        The number of the first of them.
    """

    function: Callable[..., Any]
    tree: ast.FunctionDef
    file: str
    lines: tuple[str, ...] = field(repr=False)
    first_line: int

    @cached_property
    def name(self) -> str:
        """What messages call it: a method is named after its class too."""
        return label(self.function)

    def location(self, node: ast.AST, called: Location | None = None) -> Location:
        """Where a node of the tree stands in the user's file, and from where it was called."""
        line, column = getattr(node, "lineno", self.tree.lineno), getattr(node, "col_offset", 0)
        text = self.line(line)
        if not text.isascii():
            column = len(text.encode()[:column].decode())
        return Location(self.file, line, column + 1, self.name, called)

    def line(self, number: int) -> str:
        """The text of a line, by its number in the file."""
        index = number - self.first_line
        return self.lines[index] if 0 <= index < len(self.lines) else ""

    def outer_names(self) -> Mapping[str, Any]:
        """What the function's free names stand for: closure first, then module, then built-ins."""
        variables = inspect.getclosurevars(self.function)
        return {
            **vars(builtins),
            **getattr(self.function, "__globals__", {}),
            **variables.nonlocals,
        }


@lru_cache(maxsize=4096)
def function_source(function: Callable[..., Any]) -> FunctionSource:
    """The source of a function defined by ``def`` or ``lambda`` in a file.

    Raises
    ------
    KernelError
        If the text cannot be found (made by ``exec`` or typed at a prompt), or it is no plain
        function: a class, something that another decorator made.
    """
    name = getattr(function, "__qualname__", repr(function))
    require_plain(function)
    try:
        if function.__name__ == LAMBDA:
            return _lambda_source(function)
        raw, first = inspect.getsourcelines(function)
    except (OSError, TypeError) as error:
        raise KernelError(
            f"the source of {name} cannot be read, so it cannot become a kernel",
            hint="define it by 'def' in a file (or a notebook cell), not by exec or at the prompt",
        ) from error
    file = inspect.getsourcefile(function) or "<unknown>"
    tree = _parsed(raw)
    if not isinstance(tree, ast.FunctionDef):
        raise KernelError(
            f"{name} is not a plain function",
            Location(file, first),
            _PLAIN,
        )
    ast.increment_lineno(tree, first - 2)
    return FunctionSource(function, tree, file, tuple(x.rstrip("\r\n") for x in raw), first)


def label(function: Callable[..., Any]) -> str:
    """A function's name, of a method after that of its class."""
    return function.__qualname__.rpartition("<locals>.")[2]


def _lambda_source(function: Callable[..., Any]) -> FunctionSource:
    """The source of a lambda: of those in its file the one that its instructions point into."""
    lines, _ = inspect.findsource(function)
    file = inspect.getsourcefile(function) or "<unknown>"
    code = function.__code__
    inside = [p for p in code.co_positions() if None not in p and p[2:] != (0, 0)]
    nodes = [
        node
        for node in ast.walk(_module("".join(lines)))
        if isinstance(node, ast.Lambda)
        and node.lineno == code.co_firstlineno
        and all(_holds(node.body, position) for position in inside)
    ]
    if not inside:  # a constant, of which Python 3.12 does not say where it stands
        nodes = [node for node in nodes if _does(node, code)]
    if len(nodes) > 1:  # one lambda within another
        nodes.sort(key=lambda node: (node.body.lineno, node.body.col_offset))
    if not nodes:
        raise OSError("the lambda is not in its file as it stands now")
    body = nodes[-1].body
    result = ast.copy_location(ast.Return(body), body)
    tree = ast.FunctionDef(LAMBDA, nodes[-1].args, [result], [])
    ast.copy_location(tree, nodes[-1])
    first, last = nodes[-1].lineno, nodes[-1].end_lineno
    text = tuple(x.rstrip("\r\n") for x in lines[first - 1 : last])
    return FunctionSource(function, tree, file, text, first)


@lru_cache(maxsize=16)
def _module(text: str) -> ast.Module:
    return ast.parse(text)


def _does(node: ast.Lambda, code: CodeType) -> bool:
    """Whether a lambda has the instructions and constants of another."""
    constant = compile(ast.Expression(node), "<lambda>", "eval").co_consts[0]
    return (constant.co_code, constant.co_consts, constant.co_names, constant.co_varnames) == (
        code.co_code, code.co_consts, code.co_names, code.co_varnames
    )  # fmt: skip


def _holds(node: ast.expr, span: tuple[Any, ...]) -> bool:
    """Whether a place (first and last line, first and last column) lies within an expression."""
    line, last, column, end = span
    begins = (node.lineno, node.col_offset) <= (line, column)
    return begins and (last, end) <= (node.end_lineno, node.end_col_offset)


def require_plain(function: object) -> None:
    """Refuses what no ``def`` made, or another decorator has wrapped.

    Raises
    ------
    KernelError
        Saying what it is.
    """
    if not inspect.isfunction(function) or hasattr(function, "__wrapped__"):
        name = getattr(function, "__qualname__", repr(function))
        raise KernelError(f"{name} is {_kind(function)}", hint=_PLAIN)


def _kind(x: object) -> str:
    """What it is instead of a plain function, as the end of a sentence."""
    if isinstance(x, staticmethod | classmethod):
        return f"a {type(x).__name__}; write that decorator above the one of Portable"
    if inspect.isfunction(x):
        return "wrapped by another decorator, which would be passed over; leave it out"
    if type(x).__module__.startswith("portable."):
        return f"marked @portable.{type(x).__name__.lower()} already"
    return f"no function but of type {type(x).__name__}"


def _parsed(lines: list[str]) -> ast.stmt | None:
    """The first statement of the text, at line 2: one that is indented needs something above it."""
    indented = lines[0][:1].isspace()
    try:
        module = ast.parse(f"{'if True:' if indented else ''}\n{''.join(lines)}")
    except SyntaxError:
        return None
    first = module.body[0]
    return first.body[0] if indented and isinstance(first, ast.If) else first
