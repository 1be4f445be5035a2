"""The element-wise functions of the Array API."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, Final

from portable import lang as kl
from portable.array.base.defaults import default_dtype
from portable.array.base.operations import OPERATIONS, ArrayT, apply, is_expression
from portable.dtypes import DType, bool_
from portable.errors import DTypeError
from portable.primitives.base.operands import kind_of, promoted
from portable.primitives.base.storage import Storage
from portable.primitives.maps.elementwise import check_operands
from portable.primitives.maps.work import Expression, Operation

_REAL: Final = Operation("real", "c", kl.real, result="real")
_IMAG: Final = Operation("imag", "c", kl.imag, result="real")
_SELECTION: Final = Operation("where", "biufc", kl.where, plain=1)
_CLIP_BELOW: Final = Operation("clip", "iuf", kl.maximum)
_CLIP_ABOVE: Final = Operation("clip", "iuf", kl.minimum)
_CLIP: Final = Operation("clip", "iuf", kl.clip)


def abs(x: ArrayT, /) -> ArrayT:
    """The absolute value."""
    return apply(OPERATIONS["abs"], x)


def acos(x: ArrayT, /) -> ArrayT:
    """The arc cosine."""
    return apply(OPERATIONS["acos"], x)


def acosh(x: ArrayT, /) -> ArrayT:
    """The inverse hyperbolic cosine."""
    return apply(OPERATIONS["acosh"], x)


def asin(x: ArrayT, /) -> ArrayT:
    """The arc sine."""
    return apply(OPERATIONS["asin"], x)


def asinh(x: ArrayT, /) -> ArrayT:
    """The inverse hyperbolic sine."""
    return apply(OPERATIONS["asinh"], x)


def atan(x: ArrayT, /) -> ArrayT:
    """The arc tangent."""
    return apply(OPERATIONS["atan"], x)


def atanh(x: ArrayT, /) -> ArrayT:
    """The inverse hyperbolic tangent."""
    return apply(OPERATIONS["atanh"], x)


def bitwise_invert(x: ArrayT, /) -> ArrayT:
    """``~x``; logical for bools."""
    return apply(OPERATIONS["bitwise_invert"], x)


def ceil(x: ArrayT, /) -> ArrayT:
    """The least integer not below each element."""
    return apply(OPERATIONS["ceil"], x)


def conj(x: ArrayT, /) -> ArrayT:
    """The complex conjugate."""
    return apply(OPERATIONS["conj"], x)


def cos(x: ArrayT, /) -> ArrayT:
    """The cosine."""
    return apply(OPERATIONS["cos"], x)


def cosh(x: ArrayT, /) -> ArrayT:
    """The hyperbolic cosine."""
    return apply(OPERATIONS["cosh"], x)


def exp(x: ArrayT, /) -> ArrayT:
    """``e ** x``."""
    return apply(OPERATIONS["exp"], x)


def expm1(x: ArrayT, /) -> ArrayT:
    """``e ** x - 1``."""
    return apply(OPERATIONS["expm1"], x)


def floor(x: ArrayT, /) -> ArrayT:
    """The greatest integer not above each element."""
    return apply(OPERATIONS["floor"], x)


def isfinite(x: ArrayT, /) -> ArrayT:
    """Whether each element is neither infinite nor NaN."""
    return apply(OPERATIONS["isfinite"], x)


def isinf(x: ArrayT, /) -> ArrayT:
    """Whether each element is infinite."""
    return apply(OPERATIONS["isinf"], x)


def isnan(x: ArrayT, /) -> ArrayT:
    """Whether each element is NaN."""
    return apply(OPERATIONS["isnan"], x)


def log(x: ArrayT, /) -> ArrayT:
    """The natural logarithm."""
    return apply(OPERATIONS["log"], x)


def log1p(x: ArrayT, /) -> ArrayT:
    """``log(1 + x)``."""
    return apply(OPERATIONS["log1p"], x)


def log2(x: ArrayT, /) -> ArrayT:
    """The logarithm to base 2."""
    return apply(OPERATIONS["log2"], x)


def log10(x: ArrayT, /) -> ArrayT:
    """The logarithm to base 10."""
    return apply(OPERATIONS["log10"], x)


def logical_not(x: ArrayT, /) -> ArrayT:
    """``not x``, of bools."""
    return apply(OPERATIONS["logical_not"], x)


def negative(x: ArrayT, /) -> ArrayT:
    """``-x``."""
    return apply(OPERATIONS["negative"], x)


def positive(x: ArrayT, /) -> ArrayT:
    """``+x``: a copy."""
    return apply(OPERATIONS["positive"], x)


def reciprocal(x: ArrayT, /) -> ArrayT:
    """``1 / x``."""
    return apply(OPERATIONS["reciprocal"], x)


def round(x: ArrayT, /) -> ArrayT:
    """The nearest integer, halves to even."""
    return apply(OPERATIONS["round"], x)


def sign(x: ArrayT, /) -> ArrayT:
    """-1, 0 or 1; ``x / abs(x)`` of complex numbers; NaN of NaN."""
    return apply(OPERATIONS["sign"], x)


def signbit(x: ArrayT, /) -> ArrayT:
    """Whether the sign bit is set, also of zeros and NaN."""
    return apply(OPERATIONS["signbit"], x)


def sin(x: ArrayT, /) -> ArrayT:
    """The sine."""
    return apply(OPERATIONS["sin"], x)


def sinh(x: ArrayT, /) -> ArrayT:
    """The hyperbolic sine."""
    return apply(OPERATIONS["sinh"], x)


def sqrt(x: ArrayT, /) -> ArrayT:
    """The square root."""
    return apply(OPERATIONS["sqrt"], x)


def square(x: ArrayT, /) -> ArrayT:
    """``x * x``."""
    return apply(OPERATIONS["square"], x)


def tan(x: ArrayT, /) -> ArrayT:
    """The tangent."""
    return apply(OPERATIONS["tan"], x)


def tanh(x: ArrayT, /) -> ArrayT:
    """The hyperbolic tangent."""
    return apply(OPERATIONS["tanh"], x)


def trunc(x: ArrayT, /) -> ArrayT:
    """Each element rounded towards zero."""
    return apply(OPERATIONS["trunc"], x)


def add(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """``x1 + x2``."""
    return apply(OPERATIONS["add"], x1, x2)


def atan2(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """The angle of the point ``(x2, x1)``."""
    return apply(OPERATIONS["atan2"], x1, x2)


def bitwise_and(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """``x1 & x2``."""
    return apply(OPERATIONS["bitwise_and"], x1, x2)


def bitwise_left_shift(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """``x1 << x2``; 0 where `x2` is the width or more."""
    return apply(OPERATIONS["bitwise_left_shift"], x1, x2)


def bitwise_or(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """``x1 | x2``."""
    return apply(OPERATIONS["bitwise_or"], x1, x2)


def bitwise_right_shift(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """``x1 >> x2``, keeping the sign."""
    return apply(OPERATIONS["bitwise_right_shift"], x1, x2)


def bitwise_xor(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """``x1 ^ x2``."""
    return apply(OPERATIONS["bitwise_xor"], x1, x2)


def copysign(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """The size of `x1` with the sign of `x2`."""
    return apply(OPERATIONS["copysign"], x1, x2)


def divide(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """``x1 / x2``."""
    return apply(OPERATIONS["divide"], x1, x2)


def equal(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """``x1 == x2``."""
    return apply(OPERATIONS["equal"], x1, x2)


def floor_divide(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """``x1 // x2``, rounded down; integers by zero give 0."""
    return apply(OPERATIONS["floor_divide"], x1, x2)


def greater(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """``x1 > x2``."""
    return apply(OPERATIONS["greater"], x1, x2)


def greater_equal(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """``x1 >= x2``."""
    return apply(OPERATIONS["greater_equal"], x1, x2)


def hypot(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """The length of the vector ``(x1, x2)``."""
    return apply(OPERATIONS["hypot"], x1, x2)


def less(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """``x1 < x2``."""
    return apply(OPERATIONS["less"], x1, x2)


def less_equal(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """``x1 <= x2``."""
    return apply(OPERATIONS["less_equal"], x1, x2)


def logaddexp(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """``log(exp(x1) + exp(x2))`` without overflow."""
    return apply(OPERATIONS["logaddexp"], x1, x2)


def logical_and(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """``x1 and x2``, of bools."""
    return apply(OPERATIONS["logical_and"], x1, x2)


def logical_or(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """``x1 or x2``, of bools."""
    return apply(OPERATIONS["logical_or"], x1, x2)


def logical_xor(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """Whether exactly one is true, of bools."""
    return apply(OPERATIONS["logical_xor"], x1, x2)


def maximum(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """The larger; NaN if either is."""
    return apply(OPERATIONS["maximum"], x1, x2)


def minimum(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """The smaller; NaN if either is."""
    return apply(OPERATIONS["minimum"], x1, x2)


def multiply(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """``x1 * x2``."""
    return apply(OPERATIONS["multiply"], x1, x2)


def nextafter(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """The next number after `x1` towards `x2`."""
    return apply(OPERATIONS["nextafter"], x1, x2)


def not_equal(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """``x1 != x2``."""
    return apply(OPERATIONS["not_equal"], x1, x2)


def pow(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """``x1 ** x2``; an integer to a negative power gives 1."""
    return apply(OPERATIONS["pow"], x1, x2)


def remainder(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """``x1 % x2``, with the sign of `x2`; integers by zero give 0."""
    return apply(OPERATIONS["remainder"], x1, x2)


def subtract(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """``x1 - x2``."""
    return apply(OPERATIONS["subtract"], x1, x2)


def real(x: ArrayT, /) -> ArrayT:
    """The real part: a view of complex numbers, the array itself of real ones."""
    check_operands("real", (x,))
    if x.dtype.kind not in "iufc":
        raise DTypeError(f"real takes numbers, not {x.dtype.name}")
    if is_expression(x):
        return apply(_REAL if x.dtype.is_complex else OPERATIONS["positive"], x)
    return x.viewed(x.shape, x.strides, x.offset, x.dtype.real) if x.dtype.is_complex else x


def imag(x: ArrayT, /) -> ArrayT:
    """The imaginary part, a view."""
    check_operands("imag", (x,))
    if not x.dtype.is_complex:
        raise DTypeError(f"imag takes complex numbers, not {x.dtype.name}")
    if is_expression(x):
        return apply(_IMAG, x)
    part = x.dtype.real
    return x.viewed(x.shape, x.strides, x.offset + part.itemsize, part)


def clip(
    x: ArrayT, /, min: ArrayT | float | None = None, max: ArrayT | float | None = None
) -> ArrayT:
    """`x` limited to what lies between the bounds; those that are None do not limit.

    Parameters
    ----------
    x : Array
        Real numbers.
    min, max : Array or number, optional
        The bounds, which broadcast with `x`, and are of no wider dtype.
    """
    if min is None and max is None:
        return positive(x)
    check_operands("clip", (x,))
    if max is None:
        return _clipped(_CLIP_BELOW, x, min)
    if min is None:
        return _clipped(_CLIP_ABOVE, x, max)
    return _clipped(_CLIP, x, min, max)


def _clipped(operation: Operation, x: ArrayT, *bounds: Any) -> ArrayT:
    result: ArrayT = apply(operation, x, *bounds)
    if result.dtype is not x.dtype:
        raise DTypeError(f"clip of {x.dtype.name} by bounds of a wider dtype, {result.dtype.name}")
    return result


def where(condition: ArrayT, x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """`x1` where `condition`, else `x2`.

    Parameters
    ----------
    condition : Array
        Bools.
    x1, x2 : Array or number
        What to choose from; all three broadcast.
    """
    device = check_operands("where", (condition, x1, x2))
    if getattr(condition, "dtype", None) is not bool_:
        raise DTypeError("where takes a condition of dtype bool; compare it: x != 0")
    arrays = Storage | Expression
    if not isinstance(x1, arrays) and not isinstance(x2, arrays):
        kinds = [default_dtype(device, kind_of(x)) for x in (x1, x2)]
        return apply(_selection_of(promoted(*kinds)), condition, x1, x2)
    return apply(_SELECTION, condition, x1, x2)


@cache
def _selection_of(kind: DType) -> Operation:
    """The choice between two numbers, given in a dtype."""
    return replace(_SELECTION, fixed=kind)
