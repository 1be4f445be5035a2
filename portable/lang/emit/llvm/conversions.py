"""Prints conversions between types of values and of memory."""

from __future__ import annotations

from portable.dtypes import DType
from portable.lang.emit.llvm.builder import Builder, Printer, of_lanes, suffix, value_type
from portable.lang.ir import expressions as e
from portable.lang.ir.types import lanes_of, scalar_of


def cast(printer: Printer, x: e.Cast) -> str:
    """The value of a conversion, narrowed as by memory where that is asked for."""
    source, target, lanes = scalar_of(x.x.type), scalar_of(x.type), lanes_of(x.type)
    builder = printer.builder
    value = printer.value(x.x)
    if x.in_range and source.is_float and target.is_integer:
        value = _in_range(builder, value, source, target, lanes)
    else:
        value = converted(builder, value, source, target, lanes)
    if x.storage is None or x.storage is target:
        return value
    narrow = converted(builder, value, target, x.storage, lanes)
    return converted(builder, narrow, x.storage, target, lanes)


def converted(builder: Builder, value: str, source: DType, target: DType, lanes: int) -> str:
    """A value of one scalar type in every lane as one of another; floats saturate in integers.

    Parameters
    ----------
    builder : Builder
    value : str
    source, target : DType
        Of registers or of memory; not complex.
    lanes : int
    """
    old, new = of_lanes(value_type(source), lanes), of_lanes(value_type(target), lanes)
    if old == new:
        return value
    if target.kind == "b":
        test = "fcmp une" if source.is_float else "icmp ne"
        return builder.op(f"{test} {old} {value}, zeroinitializer")
    if source.is_float and target.is_integer:
        name = f"fpto{'s' if target.kind == 'i' else 'u'}i.sat.{suffix(new)}.{suffix(old)}"
        return builder.intrinsic(name, new, f"{old} {value}")
    if source.kind != "f" and target.kind != "f" and value.lstrip("-").isdigit():
        return _number(int(value), source, target)
    return builder.op(f"{_word(source, target)} {old} {value} to {new}")


def _word(source: DType, target: DType) -> str:
    """The instruction for a conversion."""
    if target.is_float:
        if source.is_float:
            return "fpext" if target.bits > source.bits else "fptrunc"
        return "sitofp" if source.kind == "i" else "uitofp"
    if source.kind == "b":
        return "zext"
    if target.bits < source.bits:
        return "trunc"
    return "sext" if source.kind == "i" else "zext"


def _number(value: int, source: DType, target: DType) -> str:
    """A literal in another integer type; literals may be written with either sign."""
    value %= 2**source.bits
    if source.kind == "i" and value >= 2 ** (source.bits - 1):
        value -= 2**source.bits
    value %= 2**target.bits
    signed = target.kind == "i" and value >= 2 ** (target.bits - 1)
    return str(value - 2**target.bits if signed else value)


def _in_range(builder: Builder, value: str, source: DType, target: DType, lanes: int) -> str:
    """Truncated where the integer has it; elsewhere any number, but always the same one."""
    old, new = of_lanes(value_type(source), lanes), of_lanes(value_type(target), lanes)
    word = "fptosi" if target.kind == "i" else "fptoui"
    result = builder.op(f"{word} {old} {value} to {new}")
    return builder.op(f"freeze {new} {result}")
