"""Prints counted loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portable.dtypes import DType
from portable.lang.emit.code import Level, wrapped
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.walk import subexpressions

if TYPE_CHECKING:
    from portable.lang.emit.statements import Statements

__all__ = ["print_for"]


def print_for(printer: Statements, loop: s.For) -> None:
    """A plain C loop where the sign of the step is known, else one over the number of rounds."""
    step = printer.context.facts.bounds(loop.step)
    if isinstance(loop.step, e.Const) and _never_wraps(printer, loop):
        _plain(printer, loop, upward=step.low > 0)
    else:
        _counted(printer, loop)


def _never_wraps(printer: Statements, loop: s.For) -> bool:
    """Whether stepping past `stop` stays in the type's range."""
    kind = loop.var.type
    assert isinstance(kind, DType)
    assert isinstance(loop.step, e.Const)
    stop, step = printer.context.facts.bounds(loop.stop), int(loop.step.value)
    if abs(step) == 1:
        return True
    low = 0 if kind.kind == "u" else -(2 ** (kind.bits - 1))
    high = low + 2**kind.bits - 1
    return stop.high - 1 + step <= high if step > 0 else stop.low + 1 + step >= low


def _plain(printer: Statements, loop: s.For, upward: bool) -> None:
    name = printer.context.names.of(loop.var.name)
    kind = printer.type_name(loop.var.type)
    stop = _fixed(printer, loop.stop, f"{loop.var.name}_stop")
    assert isinstance(loop.step, e.Const)
    size = abs(int(loop.step.value))
    step = f"{name} {'+=' if upward else '-='} {size}"
    _hint(printer, loop.unroll)
    start = printer.expressions.text(loop.start)
    relation = "<" if upward else ">"
    with (
        printer.writer.block(f"for ({kind} {name} = {start}; {name} {relation} {stop}; {step})"),
        printer.delays.loop(name),
    ):
        printer.block(loop.body)


def _fixed(printer: Statements, x: e.Expression, name: str) -> str:
    """The text of a bound; kept in a name of its own where the body could change its value."""
    mutable = set(printer.context.kernel.variables)
    if not any(isinstance(part, e.Variable) and part in mutable for part in subexpressions(x)):
        return wrapped(printer.expressions.code(x), Level.SHIFT)
    fresh = printer.context.names.fresh(name)
    printer.writer.line(
        f"const {printer.type_name(x.type)} {fresh} = {printer.expressions.text(x)};"
    )
    return fresh


def _counted(printer: Statements, loop: s.For) -> None:
    kind = loop.var.type
    assert isinstance(kind, DType)
    names, dialect = printer.context.names, printer.dialect
    own, unsigned = dialect.types[kind.short], dialect.types[f"u{kind.bits}"]
    start, step, trips, trip = (
        names.fresh(f"{loop.var.name}_{word}") for word in ("start", "step", "trips", "trip")
    )
    printer.writer.line(f"const {own} {start} = {printer.expressions.text(loop.start)};")
    printer.writer.line(f"const {own} {step} = {printer.expressions.text(loop.step)};")
    count = printer.context.prelude.helper("trips", kind)
    stop = printer.expressions.text(loop.stop)
    printer.writer.line(f"const {unsigned} {trips} = {count}({start}, {stop}, {step});")
    _hint(printer, loop.unroll)
    with (
        printer.writer.block(f"for ({unsigned} {trip} = 0; {trip} < {trips}; ++{trip})"),
        printer.delays.loop(trip),
    ):
        value = f"({own})(({unsigned}){start} + {trip} * ({unsigned}){step})"
        printer.bind(loop.var, value)
        printer.block(loop.body)


def _hint(printer: Statements, unroll: int) -> None:
    if unroll:
        printer.writer.line("#pragma unroll" + (f" {unroll}" if unroll > 0 else ""))
