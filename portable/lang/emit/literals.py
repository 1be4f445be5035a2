"""Exact literals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from portable.dtypes import DType
from portable.lang.emit.code import Code, Level
from portable.lang.emit.dialect import Dialect


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
