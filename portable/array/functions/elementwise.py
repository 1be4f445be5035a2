"""The element-wise functions of the Array API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, Final, TypeVar

from portable import lang as kl
from portable.array.base.defaults import default_dtype
from portable.array.base.operations import OPERATIONS, ArrayT, apply, is_expression, raised
from portable.dtypes import DType, bool_
from portable.errors import DTypeError
from portable.primitives.base.operands import kind_of, promoted
from portable.primitives.base.storage import Storage
from portable.primitives.maps.elementwise import check_operands
from portable.primitives.maps.work import Expression, Operation

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
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
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
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "round",
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

Function = TypeVar("Function", bound=Callable[..., Any])

_REAL: Final = Operation("real", "c", kl.real, result="real")
_IMAG: Final = Operation("imag", "c", kl.imag, result="real")
_SELECTION: Final = Operation("where", "biufc", kl.where, plain=1)
_CLIP_BELOW: Final = Operation("clip", "iuf", kl.maximum)
_CLIP_ABOVE: Final = Operation("clip", "iuf", kl.minimum)
_CLIP: Final = Operation("clip", "iuf", kl.clip)


def _of_one(name: str, meaning: str) -> Callable[[ArrayT], ArrayT]:
    """The function of an operation on the elements of one array."""

    def function(x: ArrayT, /) -> ArrayT:
        return apply(OPERATIONS[name], x)

    return _named(function, name, meaning)


def _of_two(name: str, meaning: str) -> Callable[[ArrayT | complex, ArrayT | complex], ArrayT]:
    """The function of an operation on the elements of two arrays, or of one and a number."""

    def function(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
        return apply(OPERATIONS[name], x1, x2)

    return _named(function, name, meaning)


def _named(function: Function, name: str, meaning: str) -> Function:
    """The function with the name and the documentation that users see."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = meaning
    return function


abs = _of_one("abs", "The absolute value.")
acos = _of_one("acos", "The arc cosine.")
acosh = _of_one("acosh", "The inverse hyperbolic cosine.")
asin = _of_one("asin", "The arc sine.")
asinh = _of_one("asinh", "The inverse hyperbolic sine.")
atan = _of_one("atan", "The arc tangent.")
atanh = _of_one("atanh", "The inverse hyperbolic tangent.")
bitwise_invert = _of_one("bitwise_invert", "``~x``; logical for bools.")
ceil = _of_one("ceil", "The least integer not below each element.")
conj = _of_one("conj", "The complex conjugate.")
cos = _of_one("cos", "The cosine.")
cosh = _of_one("cosh", "The hyperbolic cosine.")
exp = _of_one("exp", "``e ** x``.")
expm1 = _of_one("expm1", "``e ** x - 1``.")
floor = _of_one("floor", "The greatest integer not above each element.")
isfinite = _of_one("isfinite", "Whether each element is neither infinite nor NaN.")
isinf = _of_one("isinf", "Whether each element is infinite.")
isnan = _of_one("isnan", "Whether each element is NaN.")
log = _of_one("log", "The natural logarithm.")
log1p = _of_one("log1p", "``log(1 + x)``.")
log2 = _of_one("log2", "The logarithm to base 2.")
log10 = _of_one("log10", "The logarithm to base 10.")
logical_not = _of_one("logical_not", "``not x``, of bools.")
negative = _of_one("negative", "``-x``.")
positive = _of_one("positive", "``+x``: a copy.")
reciprocal = _of_one("reciprocal", "``1 / x``.")
round = _of_one("round", "The nearest integer, halves to even.")
sign = _of_one("sign", "-1, 0 or 1; ``x / abs(x)`` of complex numbers; NaN of NaN.")
signbit = _of_one("signbit", "Whether the sign bit is set, also of zeros and NaN.")
sin = _of_one("sin", "The sine.")
sinh = _of_one("sinh", "The hyperbolic sine.")
sqrt = _of_one("sqrt", "The square root.")
square = _of_one("square", "``x * x``.")
tan = _of_one("tan", "The tangent.")
tanh = _of_one("tanh", "The hyperbolic tangent.")
trunc = _of_one("trunc", "Each element rounded towards zero.")

add = _of_two("add", "``x1 + x2``.")
atan2 = _of_two("atan2", "The angle of the point ``(x2, x1)``.")
bitwise_and = _of_two("bitwise_and", "``x1 & x2``.")
bitwise_left_shift = _of_two(
    "bitwise_left_shift", "``x1 << x2``; 0 where `x2` is the width or more."
)
bitwise_or = _of_two("bitwise_or", "``x1 | x2``.")
bitwise_right_shift = _of_two("bitwise_right_shift", "``x1 >> x2``, keeping the sign.")
bitwise_xor = _of_two("bitwise_xor", "``x1 ^ x2``.")
copysign = _of_two("copysign", "The size of `x1` with the sign of `x2`.")
divide = _of_two("divide", "``x1 / x2``.")
equal = _of_two("equal", "``x1 == x2``.")
floor_divide = _of_two("floor_divide", "``x1 // x2``, rounded down; integers by zero give 0.")
greater = _of_two("greater", "``x1 > x2``.")
greater_equal = _of_two("greater_equal", "``x1 >= x2``.")
hypot = _of_two("hypot", "The length of the vector ``(x1, x2)``.")
less = _of_two("less", "``x1 < x2``.")
less_equal = _of_two("less_equal", "``x1 <= x2``.")
logaddexp = _of_two("logaddexp", "``log(exp(x1) + exp(x2))`` without overflow.")
logical_and = _of_two("logical_and", "``x1 and x2``, of bools.")
logical_or = _of_two("logical_or", "``x1 or x2``, of bools.")
logical_xor = _of_two("logical_xor", "Whether exactly one is true, of bools.")
maximum = _of_two("maximum", "The larger; NaN if either is.")
minimum = _of_two("minimum", "The smaller; NaN if either is.")
multiply = _of_two("multiply", "``x1 * x2``.")
nextafter = _of_two("nextafter", "The next number after `x1` towards `x2`.")
not_equal = _of_two("not_equal", "``x1 != x2``.")
remainder = _of_two("remainder", "``x1 % x2``, with the sign of `x2`; integers by zero give 0.")
subtract = _of_two("subtract", "``x1 - x2``.")


def pow(x1: ArrayT | complex, x2: ArrayT | complex, /) -> ArrayT:
    """``x1 ** x2``; an integer to a negative power gives 1."""
    operation, operands = raised(x1, x2)
    result: ArrayT = apply(operation, *operands)
    return result


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
