"""Pieces of C text that know how tightly they bind, and the writer of indented lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Final, NamedTuple


class Level(IntEnum):
    """How tightly an expression's outermost operator binds, C's order."""

    CONDITIONAL = 3
    LOGICAL_OR = 4
    LOGICAL_AND = 5
    BIT_OR = 6
    BIT_XOR = 7
    BIT_AND = 8
    EQUALITY = 9
    RELATION = 10
    SHIFT = 11
    SUM = 12
    PRODUCT = 13
    UNARY = 15
    POSTFIX = 16


class Code(NamedTuple):
    """An expression's text and the level of its outermost operator."""

    text: str
    level: Level = Level.POSTFIX

    def __str__(self) -> str:
        return self.text


OPERATORS: Final[dict[str, tuple[str, Level]]] = {
    "add": ("+", Level.SUM),
    "sub": ("-", Level.SUM),
    "mul": ("*", Level.PRODUCT),
    "div": ("/", Level.PRODUCT),
    "quot": ("/", Level.PRODUCT),
    "rem": ("%", Level.PRODUCT),
    "and": ("&", Level.BIT_AND),
    "or": ("|", Level.BIT_OR),
    "xor": ("^", Level.BIT_XOR),
    "shl": ("<<", Level.SHIFT),
    "shr": (">>", Level.SHIFT),
}
"""How C spells operations on numbers."""

_BITWISE = (Level.BIT_OR, Level.BIT_XOR, Level.BIT_AND, Level.SHIFT)


def wrapped(code: Code, level: Level) -> str:
    """The text, in parentheses where it binds less tightly than `level`."""
    return code.text if code.level >= level else f"({code.text})"


def infix(operator: str, level: Level, x: Code, y: Code) -> Code:
    """``x operator y``, left-associative; the less familiar precedences are spelled out.

    Parameters
    ----------
    operator : str
    level : Level
        How tightly it binds.
    x, y : Code
    """
    if level in _BITWISE:
        left, right = wrapped(x, Level.UNARY), wrapped(y, Level.UNARY)
    elif level in (Level.LOGICAL_OR, Level.LOGICAL_AND):
        inner = Level.EQUALITY
        left = x.text if x.level == level else wrapped(x, inner)
        right = wrapped(y, inner)
    else:
        left, right = wrapped(x, level), wrapped(y, Level(_next(level)))
    return Code(f"{left} {operator} {right}", level)


def _next(level: Level) -> int:
    return Level.UNARY if level == Level.PRODUCT else level + 1


class Writer:
    """Collects lines at the current indentation."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._depth = 0

    def line(self, text: str = "") -> None:
        """Adds one line."""
        self.lines.append("    " * self._depth + text if text else "")

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        """Adds ``head {``, what the context adds one step deeper, and `tail`."""
        self.line(f"{head} {{" if head else "{")
        self._depth += 1
        yield
        self._depth -= 1
        self.line(tail)

    @contextmanager
    def indented(self) -> Iterator[None]:
        """Adds what the context adds one step deeper."""
        self._depth += 1
        yield
        self._depth -= 1
