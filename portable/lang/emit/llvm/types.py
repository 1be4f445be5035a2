"""What types and constants are called in LLVM's text."""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from portable.dtypes import DType
from portable.lang.ir.types import ValueType, Vector, lanes_of, scalar_of

_NAMES: Final = {
    "bool": "i1",
    "i8": "i8",
    "u8": "i8",
    "i16": "i16",
    "u16": "i16",
    "i32": "i32",
    "u32": "i32",
    "i64": "i64",
    "u64": "i64",
    "f16": "half",
    "bf16": "i16",
    "f8e4m3": "i8",
    "f8e5m2": "i8",
    "f32": "float",
    "f64": "double",
}
_SUFFIXES: Final = {"half": "f16", "float": "f32", "double": "f64"}


def of_lanes(scalar: str, lanes: int) -> str:
    """The type of so many lanes of a type."""
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def value_type(kind: ValueType) -> str:
    """The type of a value in a register."""
    return of_lanes(_NAMES[scalar_of(kind).short], lanes_of(kind))


def memory_type(dtype: DType, lanes: int = 1) -> str:
    """The type of an element in memory, or of a component where it is complex; bool is a byte."""
    return of_lanes("i8" if dtype.kind == "b" else _NAMES[dtype.real.short], lanes)


def suffix(kind: str) -> str:
    """How a type is called in the names of intrinsic functions."""
    if not kind.startswith("<"):
        return _SUFFIXES.get(kind, kind)
    lanes, scalar = kind[1:-1].split(" x ")
    return f"v{lanes}{suffix(scalar)}"


def literal(value: float, dtype: DType) -> str:
    """A constant of a scalar type, the same to the last bit."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.is_integer:
        return str(int(value))
    with np.errstate(over="ignore"):
        rounded = dtype.numpy.type(value)
    if np.isnan(rounded):
        return "0xH7E00" if dtype.bits == 16 else "0x7FF8000000000000"
    if dtype.bits == 16:
        return f"0xH{int(rounded.view(np.uint16)):04X}"
    return "0x" + struct.pack(">d", float(rounded)).hex().upper()


def splat(scalar: str, kind: ValueType) -> str:
    """A constant, given as a literal, in every lane of a type."""
    if not isinstance(kind, Vector):
        return scalar
    return f"splat ({value_type(kind.dtype)} {scalar})"
