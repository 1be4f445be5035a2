"""What printers of parts of a kernel ask of the one that prints its expressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from portable.dtypes import DType
from portable.lang.emit.code import Code
from portable.lang.emit.context import Context
from portable.lang.emit.dialect import Dialect
from portable.lang.ir import expressions as e
from portable.lang.ir.types import ValueType


@dataclass(frozen=True, slots=True)
class Text(e.Expression):
    """A piece of postfix C text in the place of an expression."""

    text: str
    type: ValueType


class Printer(Protocol):
    """Prints expressions of one kernel."""

    context: Context
    dialect: Dialect

    def text(self, x: e.Expression) -> str:
        """The text of an expression, to stand where any may."""

    def operand(self, x: e.Expression) -> str:
        """The text of an expression, to stand beside a unary operator or in a cast."""

    def code(self, x: e.Expression) -> Code:
        """The text and level of an expression."""

    def template(self, function: str, kind: DType) -> str:
        """How a function is spelled for operands of a type."""

    def hides_negatives(self, x: e.Unary) -> bool:
        """Whether a compiler must not find out that this is a negative."""
