"""Element-wise functions; how far off they may be stands in `portable.lang.ir.elementwise`."""

from __future__ import annotations

from typing import Any

from portable.lang.words.word import elementwise

__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "clz",
    "copysign",
    "cos",
    "cosh",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "fma",
    "fmod",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log1p",
    "log2",
    "log10",
    "mulhi",
    "nextafter",
    "popcount",
    "pow",
    "rint",
    "rsqrt",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]


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
