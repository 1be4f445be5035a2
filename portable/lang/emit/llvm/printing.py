"""Prints lines of text and numbers, by functions of C and of the process."""

from __future__ import annotations

from typing import Final

from portable.dtypes import DType, float64, int32
from portable.lang.emit.llvm.builder import value_type
from portable.lang.emit.llvm.conversions import converted
from portable.lang.emit.llvm.expressions import Expressions
from portable.lang.ir import statements as s
from portable.lang.ir.nodes import scalar_type

_FORMATS: Final = {
    "bool": "%d",
    "i32": "%d",
    "u32": "%u",
    "i64": "%lld",
    "u64": "%llu",
    "f16": "%g",
    "f32": "%g",
    "f64": "%g",
}
_LONGEST: Final = 24
"""Characters of a number, at most."""


def print_line(printer: Expressions, x: s.Print) -> None:
    """The instructions of one statement."""
    builder, formats, values, room = printer.builder, "", [], 2
    for piece in x.pieces:
        if isinstance(piece, str):
            formats += piece.replace("%", "%%")
            room += len(piece.encode())
            continue
        kind = scalar_type(piece)
        formats += _FORMATS[kind.short]
        room += _LONGEST
        values.append(_passed(printer, printer.value(piece), kind))
    text = _text(printer, formats + "\n")
    builder.declare("snprintf", "declare i32 @snprintf(ptr, i64, ptr, ...) nounwind")
    builder.declare("portable_print", "declare void @portable_print(ptr, i64) nounwind")
    line = builder.argument(f"line of {room}", f"alloca [{room} x i8]")
    arguments = ", ".join([f"ptr {line}", f"i64 {room}", f"ptr {text}", *values])
    count = builder.op(f"call i32 (ptr, i64, ptr, ...) @snprintf({arguments})")
    length = builder.op(f"sext i32 {count} to i64")
    builder.do(f"call void @portable_print(ptr {line}, i64 {length})")


def _passed(printer: Expressions, value: str, kind: DType) -> str:
    """An argument of a function that takes any: what is narrow is widened."""
    wanted = float64 if kind.is_float else int32 if kind.kind == "b" else kind
    return f"{value_type(wanted)} {converted(printer.builder, value, kind, wanted, 1)}"


def _text(printer: Expressions, text: str) -> str:
    """The name of a constant that holds a text, which ends in a zero."""
    data = text.encode() + b"\0"
    letters = "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in data)
    name = f"@text{len(printer.builder.declarations)}"
    definition = f'{name} = private constant [{len(data)} x i8] c"{letters}"'
    printer.builder.declare(definition, definition)
    return name
