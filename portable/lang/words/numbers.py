"""Element-wise functions, conversions, choices, and Python's operators as functions."""

from __future__ import annotations

from typing import Any

from portable.lang.words.word import elementwise, word

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitcast",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "cast",
    "cbrt",
    "ceil",
    "clip",
    "clz",
    "complex",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "dot",
    "equal",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "fma",
    "fmod",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mulhi",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "popcount",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "rint",
    "round",
    "rsqrt",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "where",
]


# Element-wise functions; how far off they may be stands in `portable.lang.ir.elementwise`.


@elementwise
def abs(x: Any) -> Any:
    """The absolute value; of complex numbers the distance from 0."""


@elementwise
def acos(x: Any) -> Any:
    """The angle from 0 to pi whose cosine is `x`."""


@elementwise
def acosh(x: Any) -> Any:
    """The inverse hyperbolic cosine."""


@elementwise
def asin(x: Any) -> Any:
    """The angle from -pi / 2 to pi / 2 whose sine is `x`."""


@elementwise
def asinh(x: Any) -> Any:
    """The inverse hyperbolic sine."""


@elementwise
def atan(x: Any) -> Any:
    """The angle from -pi / 2 to pi / 2 whose tangent is `x`."""


@elementwise
def atan2(x: Any, y: Any) -> Any:
    """The angle of the point (y, x) = (`x`, `y`): the first is its height."""


@elementwise
def atanh(x: Any) -> Any:
    """The inverse hyperbolic tangent."""


@elementwise
def cbrt(x: Any) -> Any:
    """The cube root."""


@elementwise
def ceil(x: Any) -> Any:
    """The least whole number that is not below `x`."""


@elementwise
def clz(x: Any) -> Any:
    """How many bits above the highest one that is set."""


@elementwise
def copysign(x: Any, y: Any) -> Any:
    """The magnitude of `x` with the sign of `y`."""


@elementwise
def cos(x: Any) -> Any:
    """The cosine of an angle in radians."""


@elementwise
def cosh(x: Any) -> Any:
    """The hyperbolic cosine."""


@elementwise
def exp(x: Any) -> Any:
    """E to the power of `x`."""


@elementwise
def exp2(x: Any) -> Any:
    """2 to the power of `x`."""


@elementwise
def expm1(x: Any) -> Any:
    """``exp(x) - 1``, exact for small `x`, too."""


@elementwise
def floor(x: Any) -> Any:
    """The greatest whole number that is not above `x`."""


@elementwise
def fma(x: Any, y: Any, z: Any) -> Any:
    """``x * y + z``, rounded once.

    Parameters
    ----------
    x, y, z : number or vector of floats
    """


@elementwise
def fmod(x: Any, y: Any) -> Any:
    """What is left of `x` after division by `y` toward zero, exactly, with the sign of `x`.

    C's and NumPy's; ``x % y`` is Python's, with the sign of `y`.
    """


@elementwise
def hypot(x: Any, y: Any) -> Any:
    """``sqrt(x * x + y * y)`` without overflow."""


@elementwise
def isfinite(x: Any) -> Any:
    """Whether `x` is neither infinite nor NaN."""


@elementwise
def isinf(x: Any) -> Any:
    """Whether `x` is infinite."""


@elementwise
def isnan(x: Any) -> Any:
    """Whether `x` is NaN."""


@elementwise
def log(x: Any) -> Any:
    """The natural logarithm."""


@elementwise
def log10(x: Any) -> Any:
    """The logarithm to base 10."""


@elementwise
def log1p(x: Any) -> Any:
    """``log(1 + x)``, exact for small `x`, too."""


@elementwise
def log2(x: Any) -> Any:
    """The logarithm to base 2."""


@elementwise
def mulhi(x: Any, y: Any) -> Any:
    """The upper half of the bits of a product of integers."""


@elementwise
def nextafter(x: Any, y: Any) -> Any:
    """The number next to `x` towards `y`."""


@elementwise
def popcount(x: Any) -> Any:
    """How many bits are set."""


@elementwise
def pow(x: Any, y: Any) -> Any:
    """`x` to the power of `y`."""


@elementwise
def rint(x: Any) -> Any:
    """The nearest whole number, halves to even."""


@elementwise
def rsqrt(x: Any) -> Any:
    """``1 / sqrt(x)``."""


@elementwise
def signbit(x: Any) -> Any:
    """Whether the sign is set, as of -0."""


@elementwise
def sin(x: Any) -> Any:
    """The sine of an angle in radians."""


@elementwise
def sinh(x: Any) -> Any:
    """The hyperbolic sine."""


@elementwise
def sqrt(x: Any) -> Any:
    """The square root."""


@elementwise
def tan(x: Any) -> Any:
    """The tangent of an angle in radians."""


@elementwise
def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""


@elementwise
def trunc(x: Any) -> Any:
    """`x` without its fraction."""


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
