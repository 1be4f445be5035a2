"""Prints counted loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portable.lang.emit.code import Level, wrapped
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s

if TYPE_CHECKING:
    from portable.lang.emit.statements import Statements

__all__ = ["print_for"]


def print_for(printer: Statements, loop: s.For) -> None:
    """A loop whose step is a constant and whose bound stays what it is."""
    assert isinstance(loop.step, e.Const)
    name, size = printer.context.names.of(loop.var.name), int(loop.step.value)
    kind = printer.type_name(loop.var.type)
    start = printer.expressions.text(loop.start)
    stop = wrapped(printer.expressions.code(loop.stop), Level.SHIFT)
    test = f"{name} {'<' if size > 0 else '>'} {stop}"
    step = f"{name} {'+=' if size > 0 else '-='} {abs(size)}"
    if loop.unroll:
        printer.writer.line("#pragma unroll" + (f" {loop.unroll}" if loop.unroll > 0 else ""))
    with (
        printer.writer.block(f"for ({kind} {name} = {start}; {test}; {step})"),
        printer.delays.loop(name),
    ):
        printer.block(loop.body)
