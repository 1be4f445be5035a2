"""Conversions, choices, and Python's operators as functions."""

from __future__ import annotations

from typing import Any

from portable.lang.words.word import word

__all__ = [
    "add",
    "bitcast",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "cast",
    "clip",
    "complex",
    "conj",
    "divide",
    "dot",
    "equal",
    "floor_divide",
    "greater",
    "greater_equal",
    "imag",
    "less",
    "less_equal",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "not_equal",
    "positive",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "square",
    "subtract",
    "where",
]


@word
def cast(x: Any, dtype: Any) -> Any:
    """`x` converted, ``dtype(x)`` for short: floats to integers saturate, integers wrap."""


@word
def bitcast(x: Any, dtype: Any) -> Any:
    """The same bits as another type of the same width."""


@word
def where(condition: Any, x: Any, y: Any) -> Any:
    """`x` where `condition`, else `y`; both are evaluated. Of tuples and structs item by item."""


@word
def minimum(x: Any, y: Any) -> Any:
    """The smaller; NaN if either is. Of zeros of both signs either."""


@word
def maximum(x: Any, y: Any) -> Any:
    """The larger; NaN if either is. Of zeros of both signs either."""


@word
def complex(real: Any, imag: Any) -> Any:
    """A complex number of two real ones."""


@word
def add(x: Any, y: Any) -> Any:
    """X + y."""


@word
def subtract(x: Any, y: Any) -> Any:
    """X - y."""


@word
def multiply(x: Any, y: Any) -> Any:
    """X * y."""


@word
def divide(x: Any, y: Any) -> Any:
    """X / y."""


@word
def floor_divide(x: Any, y: Any) -> Any:
    """X // y."""


@word
def remainder(x: Any, y: Any) -> Any:
    """X % y."""


@word
def equal(x: Any, y: Any) -> Any:
    """X == y."""


@word
def not_equal(x: Any, y: Any) -> Any:
    """X != y."""


@word
def less(x: Any, y: Any) -> Any:
    """X < y."""


@word
def less_equal(x: Any, y: Any) -> Any:
    """X <= y."""


@word
def greater(x: Any, y: Any) -> Any:
    """X > y."""


@word
def greater_equal(x: Any, y: Any) -> Any:
    """X >= y."""


@word
def bitwise_and(x: Any, y: Any) -> Any:
    """X & y."""


@word
def bitwise_or(x: Any, y: Any) -> Any:
    """X | y."""


@word
def bitwise_xor(x: Any, y: Any) -> Any:
    """X ^ y."""


@word
def bitwise_left_shift(x: Any, y: Any) -> Any:
    """X << y."""


@word
def bitwise_right_shift(x: Any, y: Any) -> Any:
    """X >> y."""


@word
def logical_and(x: Any, y: Any) -> Any:
    """X & y, of bools."""


@word
def logical_or(x: Any, y: Any) -> Any:
    """X | y, of bools."""


@word
def logical_xor(x: Any, y: Any) -> Any:
    """X ^ y, of bools."""


@word
def logaddexp(x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y)) without overflow."""


@word
def bitwise_invert(x: Any) -> Any:
    """~x."""


@word
def logical_not(x: Any) -> Any:
    """~x, of bools."""


@word
def negative(x: Any) -> Any:
    """-x."""


@word
def positive(x: Any) -> Any:
    """X."""


@word
def reciprocal(x: Any) -> Any:
    """1 / x."""


@word
def round(x: Any) -> Any:
    """X rounded, halves to even."""


@word
def sign(x: Any) -> Any:
    """-1, 0 or 1; NaN of NaN."""


@word
def square(x: Any) -> Any:
    """X * x."""


@word
def real(x: Any) -> Any:
    """The real part."""


@word
def imag(x: Any) -> Any:
    """The imaginary part."""


@word
def conj(x: Any) -> Any:
    """The complex conjugate."""


@word
def dot(x: Any, y: Any) -> Any:
    """The sum of the products of two vectors' lanes, from the first lane on; of numbers x * y."""


@word
def clip(x: Any, min: Any = None, max: Any = None) -> Any:
    """`x` limited to what lies between the bounds that are given."""
