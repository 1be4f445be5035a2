"""The element-wise functions of the Array API."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from portable import lang as kl
from portable.array import real_operations as r
from portable.array.base.storage import Storage
from portable.array.engine import apply, check_operands
from portable.array.expression import Expression
from portable.array.operation import Operation
from portable.array.promotion import kind_of, promoted
from portable.dtypes import DType, bool_
from portable.errors import DTypeError

if TYPE_CHECKING:
    from portable.array.array import Array

__all__ = [
    "OPERATIONS",
    "SELECTION",
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

OPERATIONS: Final[dict[str, Operation]] = {
    x.name: x
    for x in (
        Operation("abs", "iufc", kl.abs, result="real"),
        Operation("acos", "fc", kl.acos),
        Operation("acosh", "fc", kl.acosh),
        Operation("asin", "fc", kl.asin),
        Operation("asinh", "fc", kl.asinh),
        Operation("atan", "fc", kl.atan),
        Operation("atanh", "fc", kl.atanh),
        Operation("bitwise_invert", "biu", kl.bitwise_invert),
        Operation("ceil", "iuf", kl.ceil, kl.positive),
        Operation("conj", "iufc", kl.conj),
        Operation("cos", "fc", kl.cos),
        Operation("cosh", "fc", kl.cosh),
        Operation("exp", "fc", kl.exp),
        Operation("expm1", "fc", kl.expm1),
        Operation("floor", "iuf", kl.floor, kl.positive),
        Operation("isfinite", "iufc", kl.isfinite, r.same, result="bool"),
        Operation("isinf", "iufc", kl.isinf, r.unequal_to_itself, result="bool"),
        Operation("isnan", "iufc", kl.isnan, r.unequal_to_itself, result="bool"),
        Operation("log", "fc", kl.log),
        Operation("log1p", "fc", kl.log1p),
        Operation("log2", "fc", kl.log2),
        Operation("log10", "fc", kl.log10),
        Operation("logical_not", "b", kl.logical_not),
        Operation("negative", "iufc", kl.negative),
        Operation("positive", "iufc", kl.positive),
        Operation("reciprocal", "fc", kl.reciprocal),
        Operation("round", "iufc", kl.round),
        Operation("sign", "iufc", kl.sign),
        Operation("signbit", "f", kl.signbit, result="bool"),
        Operation("sin", "fc", kl.sin),
        Operation("sinh", "fc", kl.sinh),
        Operation("sqrt", "fc", kl.sqrt),
        Operation("square", "iufc", kl.square),
        Operation("tan", "fc", kl.tan),
        Operation("tanh", "fc", r.bounded_tanh),
        Operation("trunc", "iuf", kl.trunc, kl.positive),
        Operation("add", "iufc", kl.add),
        Operation("atan2", "f", kl.atan2),
        Operation("bitwise_and", "biu", kl.bitwise_and),
        Operation("bitwise_left_shift", "iu", r.shifted_left),
        Operation("bitwise_or", "biu", kl.bitwise_or),
        Operation("bitwise_right_shift", "iu", r.shifted_right),
        Operation("bitwise_xor", "biu", kl.bitwise_xor),
        Operation("copysign", "f", kl.copysign),
        Operation("divide", "fc", kl.divide),
        Operation("equal", "biufc", kl.equal, result="bool"),
        Operation("floor_divide", "iuf", r.float_floor_divide, kl.floor_divide, vector=False),
        Operation("greater", "iuf", kl.greater, result="bool"),
        Operation("greater_equal", "iuf", kl.greater_equal, result="bool"),
        Operation("hypot", "f", kl.hypot),
        Operation("less", "iuf", kl.less, result="bool"),
        Operation("less_equal", "iuf", kl.less_equal, result="bool"),
        Operation("logaddexp", "f", kl.logaddexp),
        Operation("logical_and", "b", kl.logical_and),
        Operation("logical_or", "b", kl.logical_or),
        Operation("logical_xor", "b", kl.logical_xor),
        Operation("maximum", "iuf", kl.maximum),
        Operation("minimum", "iuf", kl.minimum),
        Operation("multiply", "iufc", kl.multiply),
        Operation("nextafter", "f", kl.nextafter, vector=False),
        Operation("not_equal", "biufc", kl.not_equal, result="bool"),
        Operation("pow", "iufc", kl.pow, r.integer_power, vector=False),
        Operation("remainder", "iuf", r.float_remainder, kl.remainder, vector=False),
        Operation("subtract", "iufc", kl.subtract),
    )
}

_ABS: Final = OPERATIONS["abs"]
_ACOS: Final = OPERATIONS["acos"]
_ACOSH: Final = OPERATIONS["acosh"]
_ASIN: Final = OPERATIONS["asin"]
_ASINH: Final = OPERATIONS["asinh"]
_ATAN: Final = OPERATIONS["atan"]
_ATANH: Final = OPERATIONS["atanh"]
_BITWISE_INVERT: Final = OPERATIONS["bitwise_invert"]
_CEIL: Final = OPERATIONS["ceil"]
_CONJ: Final = OPERATIONS["conj"]
_COS: Final = OPERATIONS["cos"]
_COSH: Final = OPERATIONS["cosh"]
_EXP: Final = OPERATIONS["exp"]
_EXPM1: Final = OPERATIONS["expm1"]
_FLOOR: Final = OPERATIONS["floor"]
_ISFINITE: Final = OPERATIONS["isfinite"]
_ISINF: Final = OPERATIONS["isinf"]
_ISNAN: Final = OPERATIONS["isnan"]
_LOG: Final = OPERATIONS["log"]
_LOG1P: Final = OPERATIONS["log1p"]
_LOG2: Final = OPERATIONS["log2"]
_LOG10: Final = OPERATIONS["log10"]
_LOGICAL_NOT: Final = OPERATIONS["logical_not"]
_NEGATIVE: Final = OPERATIONS["negative"]
_POSITIVE: Final = OPERATIONS["positive"]
_RECIPROCAL: Final = OPERATIONS["reciprocal"]
_ROUND: Final = OPERATIONS["round"]
_SIGN: Final = OPERATIONS["sign"]
_SIGNBIT: Final = OPERATIONS["signbit"]
_SIN: Final = OPERATIONS["sin"]
_SINH: Final = OPERATIONS["sinh"]
_SQRT: Final = OPERATIONS["sqrt"]
_SQUARE: Final = OPERATIONS["square"]
_TAN: Final = OPERATIONS["tan"]
_TANH: Final = OPERATIONS["tanh"]
_TRUNC: Final = OPERATIONS["trunc"]
_ADD: Final = OPERATIONS["add"]
_ATAN2: Final = OPERATIONS["atan2"]
_BITWISE_AND: Final = OPERATIONS["bitwise_and"]
_BITWISE_LEFT_SHIFT: Final = OPERATIONS["bitwise_left_shift"]
_BITWISE_OR: Final = OPERATIONS["bitwise_or"]
_BITWISE_RIGHT_SHIFT: Final = OPERATIONS["bitwise_right_shift"]
_BITWISE_XOR: Final = OPERATIONS["bitwise_xor"]
_COPYSIGN: Final = OPERATIONS["copysign"]
_DIVIDE: Final = OPERATIONS["divide"]
_EQUAL: Final = OPERATIONS["equal"]
_FLOOR_DIVIDE: Final = OPERATIONS["floor_divide"]
_GREATER: Final = OPERATIONS["greater"]
_GREATER_EQUAL: Final = OPERATIONS["greater_equal"]
_HYPOT: Final = OPERATIONS["hypot"]
_LESS: Final = OPERATIONS["less"]
_LESS_EQUAL: Final = OPERATIONS["less_equal"]
_LOGADDEXP: Final = OPERATIONS["logaddexp"]
_LOGICAL_AND: Final = OPERATIONS["logical_and"]
_LOGICAL_OR: Final = OPERATIONS["logical_or"]
_LOGICAL_XOR: Final = OPERATIONS["logical_xor"]
_MAXIMUM: Final = OPERATIONS["maximum"]
_MINIMUM: Final = OPERATIONS["minimum"]
_MULTIPLY: Final = OPERATIONS["multiply"]
_NEXTAFTER: Final = OPERATIONS["nextafter"]
_NOT_EQUAL: Final = OPERATIONS["not_equal"]
_POW: Final = OPERATIONS["pow"]
_REMAINDER: Final = OPERATIONS["remainder"]
_SUBTRACT: Final = OPERATIONS["subtract"]
_REAL: Final = Operation("real", "c", kl.real, result="real")
_IMAG: Final = Operation("imag", "c", kl.imag, result="real")
SELECTION: Final = Operation("where", "biufc", r.selected, plain=1)
_CLIP_BELOW: Final = Operation("clip", "iuf", r.limited_below)
_CLIP_ABOVE: Final = Operation("clip", "iuf", r.limited_above)
_CLIP: Final = Operation("clip", "iuf", r.limited)


def _unary(operation: Operation, x: Any) -> Array:
    return apply(operation, x)


def abs(x: Array, /) -> Array:
    """The absolute value."""
    return _unary(_ABS, x)


def acos(x: Array, /) -> Array:
    """The arc cosine."""
    return _unary(_ACOS, x)


def acosh(x: Array, /) -> Array:
    """The inverse hyperbolic cosine."""
    return _unary(_ACOSH, x)


def asin(x: Array, /) -> Array:
    """The arc sine."""
    return _unary(_ASIN, x)


def asinh(x: Array, /) -> Array:
    """The inverse hyperbolic sine."""
    return _unary(_ASINH, x)


def atan(x: Array, /) -> Array:
    """The arc tangent."""
    return _unary(_ATAN, x)


def atanh(x: Array, /) -> Array:
    """The inverse hyperbolic tangent."""
    return _unary(_ATANH, x)


def bitwise_invert(x: Array, /) -> Array:
    """``~x``; logical for bools."""
    return _unary(_BITWISE_INVERT, x)


def ceil(x: Array, /) -> Array:
    """The least integer not below each element."""
    return _unary(_CEIL, x)


def conj(x: Array, /) -> Array:
    """The complex conjugate."""
    return _unary(_CONJ, x)


def cos(x: Array, /) -> Array:
    """The cosine."""
    return _unary(_COS, x)


def cosh(x: Array, /) -> Array:
    """The hyperbolic cosine."""
    return _unary(_COSH, x)


def exp(x: Array, /) -> Array:
    """``e ** x``."""
    return _unary(_EXP, x)


def expm1(x: Array, /) -> Array:
    """``e ** x - 1``."""
    return _unary(_EXPM1, x)


def floor(x: Array, /) -> Array:
    """The greatest integer not above each element."""
    return _unary(_FLOOR, x)


def isfinite(x: Array, /) -> Array:
    """Whether each element is neither infinite nor NaN."""
    return _unary(_ISFINITE, x)


def isinf(x: Array, /) -> Array:
    """Whether each element is infinite."""
    return _unary(_ISINF, x)


def isnan(x: Array, /) -> Array:
    """Whether each element is NaN."""
    return _unary(_ISNAN, x)


def log(x: Array, /) -> Array:
    """The natural logarithm."""
    return _unary(_LOG, x)


def log1p(x: Array, /) -> Array:
    """``log(1 + x)``."""
    return _unary(_LOG1P, x)


def log2(x: Array, /) -> Array:
    """The logarithm to base 2."""
    return _unary(_LOG2, x)


def log10(x: Array, /) -> Array:
    """The logarithm to base 10."""
    return _unary(_LOG10, x)


def logical_not(x: Array, /) -> Array:
    """``not x``, of bools."""
    return _unary(_LOGICAL_NOT, x)


def negative(x: Array, /) -> Array:
    """``-x``."""
    return _unary(_NEGATIVE, x)


def positive(x: Array, /) -> Array:
    """``+x``: a copy."""
    return _unary(_POSITIVE, x)


def reciprocal(x: Array, /) -> Array:
    """``1 / x``."""
    return _unary(_RECIPROCAL, x)


def round(x: Array, /) -> Array:
    """The nearest integer, halves to even."""
    return _unary(_ROUND, x)


def sign(x: Array, /) -> Array:
    """-1, 0 or 1; ``x / abs(x)`` of complex numbers; NaN of NaN."""
    return _unary(_SIGN, x)


def signbit(x: Array, /) -> Array:
    """Whether the sign bit is set, also of zeros and NaN."""
    return _unary(_SIGNBIT, x)


def sin(x: Array, /) -> Array:
    """The sine."""
    return _unary(_SIN, x)


def sinh(x: Array, /) -> Array:
    """The hyperbolic sine."""
    return _unary(_SINH, x)


def sqrt(x: Array, /) -> Array:
    """The square root."""
    return _unary(_SQRT, x)


def square(x: Array, /) -> Array:
    """``x * x``."""
    return _unary(_SQUARE, x)


def tan(x: Array, /) -> Array:
    """The tangent."""
    return _unary(_TAN, x)


def tanh(x: Array, /) -> Array:
    """The hyperbolic tangent."""
    return _unary(_TANH, x)


def trunc(x: Array, /) -> Array:
    """Each element rounded towards zero."""
    return _unary(_TRUNC, x)


def add(x1: Array | complex, x2: Array | complex, /) -> Array:
    """``x1 + x2``."""
    return apply(_ADD, x1, x2)


def atan2(x1: Array | complex, x2: Array | complex, /) -> Array:
    """The angle of the point ``(x2, x1)``."""
    return apply(_ATAN2, x1, x2)


def bitwise_and(x1: Array | complex, x2: Array | complex, /) -> Array:
    """``x1 & x2``."""
    return apply(_BITWISE_AND, x1, x2)


def bitwise_left_shift(x1: Array | complex, x2: Array | complex, /) -> Array:
    """``x1 << x2``; 0 where `x2` is the width or more."""
    return apply(_BITWISE_LEFT_SHIFT, x1, x2)


def bitwise_or(x1: Array | complex, x2: Array | complex, /) -> Array:
    """``x1 | x2``."""
    return apply(_BITWISE_OR, x1, x2)


def bitwise_right_shift(x1: Array | complex, x2: Array | complex, /) -> Array:
    """``x1 >> x2``, keeping the sign."""
    return apply(_BITWISE_RIGHT_SHIFT, x1, x2)


def bitwise_xor(x1: Array | complex, x2: Array | complex, /) -> Array:
    """``x1 ^ x2``."""
    return apply(_BITWISE_XOR, x1, x2)


def copysign(x1: Array | complex, x2: Array | complex, /) -> Array:
    """The size of `x1` with the sign of `x2`."""
    return apply(_COPYSIGN, x1, x2)


def divide(x1: Array | complex, x2: Array | complex, /) -> Array:
    """``x1 / x2``."""
    return apply(_DIVIDE, x1, x2)


def equal(x1: Array | complex, x2: Array | complex, /) -> Array:
    """``x1 == x2``."""
    return apply(_EQUAL, x1, x2)


def floor_divide(x1: Array | complex, x2: Array | complex, /) -> Array:
    """``x1 // x2``, rounded down; integers by zero give 0."""
    return apply(_FLOOR_DIVIDE, x1, x2)


def greater(x1: Array | complex, x2: Array | complex, /) -> Array:
    """``x1 > x2``."""
    return apply(_GREATER, x1, x2)


def greater_equal(x1: Array | complex, x2: Array | complex, /) -> Array:
    """``x1 >= x2``."""
    return apply(_GREATER_EQUAL, x1, x2)


def hypot(x1: Array | complex, x2: Array | complex, /) -> Array:
    """The length of the vector ``(x1, x2)``."""
    return apply(_HYPOT, x1, x2)


def less(x1: Array | complex, x2: Array | complex, /) -> Array:
    """``x1 < x2``."""
    return apply(_LESS, x1, x2)


def less_equal(x1: Array | complex, x2: Array | complex, /) -> Array:
    """``x1 <= x2``."""
    return apply(_LESS_EQUAL, x1, x2)


def logaddexp(x1: Array | complex, x2: Array | complex, /) -> Array:
    """``log(exp(x1) + exp(x2))`` without overflow."""
    return apply(_LOGADDEXP, x1, x2)


def logical_and(x1: Array | complex, x2: Array | complex, /) -> Array:
    """``x1 and x2``, of bools."""
    return apply(_LOGICAL_AND, x1, x2)


def logical_or(x1: Array | complex, x2: Array | complex, /) -> Array:
    """``x1 or x2``, of bools."""
    return apply(_LOGICAL_OR, x1, x2)


def logical_xor(x1: Array | complex, x2: Array | complex, /) -> Array:
    """Whether exactly one is true, of bools."""
    return apply(_LOGICAL_XOR, x1, x2)


def maximum(x1: Array | complex, x2: Array | complex, /) -> Array:
    """The larger; NaN if either is."""
    return apply(_MAXIMUM, x1, x2)


def minimum(x1: Array | complex, x2: Array | complex, /) -> Array:
    """The smaller; NaN if either is."""
    return apply(_MINIMUM, x1, x2)


def multiply(x1: Array | complex, x2: Array | complex, /) -> Array:
    """``x1 * x2``."""
    return apply(_MULTIPLY, x1, x2)


def nextafter(x1: Array | complex, x2: Array | complex, /) -> Array:
    """The next number after `x1` towards `x2`."""
    return apply(_NEXTAFTER, x1, x2)


def not_equal(x1: Array | complex, x2: Array | complex, /) -> Array:
    """``x1 != x2``."""
    return apply(_NOT_EQUAL, x1, x2)


def pow(x1: Array | complex, x2: Array | complex, /) -> Array:
    """``x1 ** x2``; an integer to a negative power gives 1."""
    return apply(_POW, x1, x2)


def remainder(x1: Array | complex, x2: Array | complex, /) -> Array:
    """``x1 % x2``, with the sign of `x2`; integers by zero give 0."""
    return apply(_REMAINDER, x1, x2)


def subtract(x1: Array | complex, x2: Array | complex, /) -> Array:
    """``x1 - x2``."""
    return apply(_SUBTRACT, x1, x2)


def real(x: Array, /) -> Array:
    """The real part: a view of complex numbers, the array itself of real ones."""
    check_operands("real", (x,))
    if x.dtype.kind not in "iufc":
        raise DTypeError(f"real takes numbers, not {x.dtype.name}")
    if isinstance(x, Expression):
        return apply(_REAL if x.dtype.is_complex else _POSITIVE, x)
    return x.viewed(x.shape, x.strides, x.offset, x.dtype.real) if x.dtype.is_complex else x


def imag(x: Array, /) -> Array:
    """The imaginary part, a view."""
    check_operands("imag", (x,))
    if not x.dtype.is_complex:
        raise DTypeError(f"imag takes complex numbers, not {x.dtype.name}")
    if isinstance(x, Expression):
        return apply(_IMAG, x)
    part = x.dtype.real
    return x.viewed(x.shape, x.strides, x.offset + part.itemsize, part)


def clip(x: Array, /, min: Array | float | None = None, max: Array | float | None = None) -> Array:
    """`x` limited to what lies between the bounds; those that are None do not limit."""
    if min is None and max is None:
        return positive(x)
    check_operands("clip", (x,))
    if max is None:
        return _clipped(_CLIP_BELOW, x, min)
    if min is None:
        return _clipped(_CLIP_ABOVE, x, max)
    return _clipped(_CLIP, x, min, max)


def _clipped(operation: Operation, x: Array, *bounds: Any) -> Array:
    result = apply(operation, x, *bounds)
    if result.dtype is not x.dtype:
        raise DTypeError(f"clip of {x.dtype.name} by bounds of a wider dtype, {result.dtype.name}")
    return result


def where(condition: Array, x1: Array | complex, x2: Array | complex, /) -> Array:
    """`x1` where `condition`, else `x2`."""
    device = check_operands("where", (condition, x1, x2))
    if getattr(condition, "dtype", None) is not bool_:
        raise DTypeError("where takes a condition of dtype bool; compare it: x != 0")
    arrays = Storage | Expression
    if not isinstance(x1, arrays) and not isinstance(x2, arrays):
        from portable.array.creation import default_dtype

        kinds = [default_dtype(device, kind_of(x)) for x in (x1, x2)]
        return apply(_selection_of(promoted(*kinds)), condition, x1, x2)
    return apply(SELECTION, condition, x1, x2)


@cache
def _selection_of(kind: DType) -> Operation:
    """The choice between two numbers, given in a dtype."""
    return replace(SELECTION, fixed=kind)
