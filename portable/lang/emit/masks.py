"""Prints what the masks of vectors choose: their lanes in front, and how many these are."""

from __future__ import annotations

from portable.dtypes import bool_
from portable.lang.emit import avx512
from portable.lang.emit.code import Code
from portable.lang.emit.literals import literal
from portable.lang.emit.printer import Printer
from portable.lang.emit.vectors import by_helper, lane, made, vector_name
from portable.lang.ir import expressions as e
from portable.lang.ir.types import Vector


def compressed(printer: Printer, x: e.Compress) -> Code:
    """The chosen lanes in front: by one instruction where the device has it, else in turn."""
    kind = x.type
    assert isinstance(kind, Vector)
    if not avx512.has_compress(kind, printer.context.capabilities.compressed_bytes):
        return by_helper(printer, x, lambda: _in_turn(printer, kind))
    name = f"pt_compress_{kind!r}"
    vector = vector_name(printer, kind)
    printer.context.prelude.define(name, lambda: avx512.compress_definition(name, vector, kind))
    return Code(f"{name}({printer.text(x.x)}, {printer.text(x.mask)})")


def _in_turn(printer: Printer, kind: Vector) -> list[str]:
    scalar = printer.dialect.types[kind.dtype.short]
    zero = literal(False if kind.dtype.kind == "b" else 0, kind.dtype, printer.dialect).text
    lines = [f"{scalar} lanes[{kind.lanes}];", "int count = 0;"]
    lines += [f"for (int i = 0; i < {kind.lanes}; i++) lanes[i] = {zero};"]
    for i in range(kind.lanes):
        held = lane(printer, "b", i, Vector(bool_, kind.lanes))
        lines += [f"if ({held}) lanes[count++] = {lane(printer, 'a', i, kind)};"]
    made_of = [f"lanes[{i}]" for i in range(kind.lanes)]
    return [*lines, f"return {made(printer, made_of, kind)};"]


def counted(printer: Printer, x: e.Count) -> Code:
    """For how many lanes a mask holds."""
    kind = x.mask.type
    assert isinstance(kind, Vector)
    if printer.context.capabilities.compressed_bytes and avx512.has_count(kind.lanes):
        name = f"pt_count_{kind!r}"
        printer.context.prelude.define(name, lambda: avx512.count_definition(name, kind.lanes))
        return Code(f"{name}({printer.text(x.mask)})")
    each = [f"(int){lane(printer, 'a', i, kind)}" for i in range(kind.lanes)]
    return by_helper(printer, x, lambda: [f"return {' + '.join(each)};"])
