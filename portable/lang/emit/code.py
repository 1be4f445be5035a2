"""Pieces of C text that know how tightly they bind, and the writer of indented lines."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np

from portable.dtypes import DType
from portable.lang.emit.dialect import Dialect


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


# Exact literals.


def literal(value: float, kind: DType, dialect: Dialect) -> Code:
    """A constant of a register type, the same value to the last bit.

    Parameters
    ----------
    value : float
    kind : DType
    dialect : Dialect
        The language that it is printed in.
    """
    if kind.kind == "b":
        return Code("true" if value else "false")
    if kind.is_integer:
        return _integer(int(value), kind, dialect)
    return _floating(float(value), kind, dialect)


def _integer(value: int, kind: DType, dialect: Dialect) -> Code:
    suffix = dialect.suffixes[kind.short]
    if kind.kind == "i" and value == -(2 ** (kind.bits - 1)):
        return Code(f"-{-value - 1}{suffix} - 1", Level.SUM)
    return Code(f"{value}{suffix}", Level.POSTFIX if value >= 0 else Level.UNARY)


def _floating(value: float, kind: DType, dialect: Dialect) -> Code:
    with np.errstate(over="ignore"):
        rounded = kind.numpy.type(value)
    if np.isnan(rounded):
        return Code(dialect.specials[f"nan.{kind.short}"])
    negative = math.copysign(1.0, float(rounded)) < 0
    magnitude = abs(rounded)
    if np.isinf(magnitude):
        text = dialect.specials[f"inf.{kind.short}"]
    else:
        text = _decimal(magnitude) + dialect.suffixes[kind.short]
        if kind.short == "f16" and "literal.f16" in dialect.specials:
            text = dialect.specials["literal.f16"].format(_decimal(magnitude))
    return Code(f"-{text}", Level.UNARY) if negative else Code(text)


def _decimal(magnitude: np.floating[Any]) -> str:
    """The shortest decimal that reads back as the same number of its type."""
    text = str(magnitude)
    return text if "." in text or "e" in text or "n" in text else f"{text}.0"
