"""Prints element-wise functions: those that processors have as instructions, or nearly so.

The others are made of these before, by `portable.lang.passes.functions`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from portable.errors import UnsupportedError
from portable.lang.emit.llvm.builder import Printer, literal, of_lanes, splat, suffix, value_type
from portable.lang.ir import expressions as e
from portable.lang.ir.types import ValueType, lanes_of, scalar_of

_INTRINSICS: Final = {
    "abs": "fabs",
    "ceil": "ceil",
    "copysign": "copysign",
    "floor": "floor",
    "fma": "fma",
    "rint": "rint",
    "sqrt": "sqrt",
    "trunc": "trunc",
    "popcount": "ctpop",
}

_Printed = Callable[[Printer, ValueType, list[str]], str]


def call(printer: Printer, x: e.Call) -> str:
    """The value of a call."""
    kind = x.arguments[0].type
    values = [printer.value(argument) for argument in x.arguments]
    if x.function in _INTRINSICS:
        typed = value_type(kind)
        name = f"{_INTRINSICS[x.function]}.{suffix(typed)}"
        return printer.builder.intrinsic(name, typed, *(f"{typed} {value}" for value in values))
    if x.function in _WORKED_OUT:
        return _WORKED_OUT[x.function](printer, kind, values)
    raise UnsupportedError(f"{x.function} of {kind} has no spelling in LLVM's text")


def _clz(printer: Printer, kind: ValueType, values: list[str]) -> str:
    typed = value_type(kind)
    name = f"ctlz.{suffix(typed)}"
    return printer.builder.intrinsic(name, typed, f"{typed} {values[0]}", "i1 false")


def _mulhi(printer: Printer, kind: ValueType, values: list[str]) -> str:
    builder, scalar, lanes = printer.builder, scalar_of(kind), lanes_of(kind)
    typed, wide = value_type(kind), of_lanes(f"i{2 * scalar.bits}", lanes)
    extend = "sext" if scalar.kind == "i" else "zext"
    a, b = (builder.op(f"{extend} {typed} {value} to {wide}") for value in values)
    product = builder.op(f"mul {wide} {a}, {b}")
    by = str(scalar.bits)
    by = by if lanes == 1 else f"splat (i{2 * scalar.bits} {by})"
    return builder.op(f"trunc {wide} {builder.op(f'lshr {wide} {product}, {by}')} to {typed}")


def _isnan(printer: Printer, kind: ValueType, values: list[str]) -> str:
    return printer.builder.op(f"fcmp uno {value_type(kind)} {values[0]}, zeroinitializer")


def _beside_infinity(test: str) -> _Printed:
    def printed(printer: Printer, kind: ValueType, values: list[str]) -> str:
        typed = value_type(kind)
        size = printer.builder.intrinsic(f"fabs.{suffix(typed)}", typed, f"{typed} {values[0]}")
        infinity = splat(literal(float("inf"), scalar_of(kind)), kind)
        return printer.builder.op(f"fcmp {test} {typed} {size}, {infinity}")

    return printed


def _signbit(printer: Printer, kind: ValueType, values: list[str]) -> str:
    bits = of_lanes(f"i{scalar_of(kind).bits}", lanes_of(kind))
    bits_of = printer.builder.op(f"bitcast {value_type(kind)} {values[0]} to {bits}")
    return printer.builder.op(f"icmp slt {bits} {bits_of}, zeroinitializer")


def _rsqrt(printer: Printer, kind: ValueType, values: list[str]) -> str:
    builder, typed = printer.builder, value_type(kind)
    root = builder.intrinsic(f"sqrt.{suffix(typed)}", typed, f"{typed} {values[0]}")
    one = splat(literal(1.0, scalar_of(kind)), kind)
    return builder.op(f"fdiv {typed} {one}, {root}")


_WORKED_OUT: Final[dict[str, _Printed]] = {
    "clz": _clz,
    "isfinite": _beside_infinity("olt"),
    "isinf": _beside_infinity("oeq"),
    "isnan": _isnan,
    "mulhi": _mulhi,
    "rsqrt": _rsqrt,
    "signbit": _signbit,
}

NATIVE: Final = frozenset(_INTRINSICS) | frozenset(_WORKED_OUT)
"""The functions that it prints."""
