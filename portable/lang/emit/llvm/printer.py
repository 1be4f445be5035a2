"""What printers of parts of a kernel ask of the one that prints its expressions."""

from __future__ import annotations

from typing import Protocol

from portable.lang.emit.llvm.builder import Builder, Context
from portable.lang.ir import expressions as e
from portable.lang.ir.types import Vector


class Printer(Protocol):
    """Prints expressions of one kernel."""

    context: Context
    builder: Builder

    def value(self, x: e.Expression) -> str:
        """The value of an expression: a name or a literal."""

    def gathered(self, lanes: list[str], kind: Vector) -> str:
        """A vector of scalars."""

    def shuffle(self, typed: str, values: list[str], places: list[int]) -> str:
        """Lanes of one vector or two, by their numbers."""
