"""The text of a Python function, its syntax tree, and what names in it stand for."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, Final, Protocol

import numpy as np

from portable.dtypes import DType
from portable.errors import KernelError, Location
from portable.lang.arguments.arguments import constant_key
from portable.lang.ir import statements as s

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


# Facts about Python's syntax trees, and about IR, that need no translation.


# The outer names that a kernel was translated with, to see when one of them stands for another.
#
# A kernel means what its names stand for when it is launched, as a Python function does. What they
# stood for when it was translated is kept with the program.

_OURS: Final = ("portable.", "portable_backends.", "portable_bench.")
_PLAIN_VALUES: Final = (bool, int, float, complex, str, tuple, DType, np.generic)
_MISSING: Final = object()


class _Space(Protocol):
    """Where a name is looked up."""

    def get(self, name: str, default: Any = None, /) -> Any:
        """What it stands for now."""


class _Cell:
    """What a closure holds, by its name."""

    def __init__(self, cell: CellType) -> None:
        self._cell = cell

    def get(self, name: str, default: Any = None, /) -> Any:
        """What it holds now."""
        del name
        try:
            return self._cell.cell_contents
        except ValueError:
            return default


class NamesRead:
    """Names, where they are looked up, and what they stood for.

    Those of Portable's own modules do not change, nor do modules and built-ins.

    Attributes
    ----------
    found : dict
        The same one for good; empty as long as there are none.
    """

    def __init__(self) -> None:
        self.found: dict[tuple[int, str], tuple[_Space, str, Any]] = {}

    def note(self, function: Callable[..., Any], name: str, value: Any) -> None:
        """That a function's outer name was read."""
        if isinstance(value, ModuleType) or not isinstance(function, FunctionType):
            return
        if str(function.__module__).startswith(_OURS):
            return
        free = function.__code__.co_freevars
        if name in free and function.__closure__ is not None:
            cell = function.__closure__[free.index(name)]
            self.found[id(cell), name] = _Cell(cell), name, value
        elif name in function.__globals__:
            self._note(function.__globals__, name, value)

    def note_attribute(self, owner: Any, name: str, value: Any) -> None:
        """That a name of a module was read, or a constant of a class."""
        if isinstance(owner, ModuleType):
            if not f"{owner.__name__}.".startswith((*_OURS, "numpy.")):
                self._note(vars(owner), name, value)
        elif isinstance(owner, type) and isinstance(value, _PLAIN_VALUES):
            holder = next((kind for kind in owner.__mro__ if name in vars(kind)), None)
            if holder is not None and vars(holder)[name] is value:
                self._note(vars(holder), name, value)

    def _note(self, space: Any, name: str, value: Any) -> None:
        if name in space:
            self.found[id(space), name] = space, name, value

    def hold(self) -> bool:
        """Whether all of them stand for what they stood for."""
        for key, (space, name, value) in tuple(self.found.items()):
            now = space.get(name, _MISSING)
            if now is value:
                continue
            if not _same(now, value):
                return False
            self.found[key] = space, name, now  # which is compared faster the next time
        return True

    def add(self, others: NamesRead) -> None:
        """Takes those of another translation, too."""
        self.found.update(others.found)


def _same(a: Any, b: Any) -> bool:
    """Whether two constants mean the same to a kernel."""
    try:
        return bool(constant_key(a) == constant_key(b))
    except (TypeError, ValueError):
        return False


# -- syntax ----------------------------------------------------------------------------------------

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
