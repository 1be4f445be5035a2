"""The element-wise operations of the Array API, by name."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Final, Protocol, TypeVar

from portable import lang as kl
from portable.dtypes import DType, float64
from portable.lang.function import function
from portable.primitives.base.storage import Storage
from portable.primitives.maps import elementwise
from portable.primitives.maps.work import Expression, Operation

# What element-wise operations on real numbers mean to a kernel, where no word says it.

_TANH_IS_ONE: Final = 20
"""Above it the hyperbolic tangent rounds to 1 in double precision."""
_BEYOND_HALF: Final = 65536.0
"""What comes after the greatest number of half precision."""
_HALF_BITS: Final = 1 << 13
"""How far apart, as bits of single precision, neighbours of half precision lie."""
_HALF_NORMAL: Final = 2.0**-14
"""The least normal number of half precision."""
_HALF_LEAST: Final = 2.0**-24
"""The least number of half precision above zero, as far apart as all subnormal ones lie."""


@function
def bounded_tanh(x: kl.Scalar) -> Any:
    """The hyperbolic tangent, 1 of infinity, where PoCL's own stops short of it."""
    if x.dtype.is_complex:
        return kl.tanh(x)
    return kl.where(kl.abs(x) > _TANH_IS_ONE, kl.copysign(1.0, x), kl.tanh(x))


@function
def same(x: kl.Scalar) -> Any:
    """Whether a number is not NaN; true of every integer."""
    return x == x


@function
def unequal_to_itself(x: kl.Scalar) -> Any:
    """Whether a number is NaN; false of every integer."""
    return x != x


@function
def float_floor_divide(x: kl.Scalar, y: kl.Scalar) -> Any:
    """The quotient rounded down, by and of infinities too, as the standard prefers to Python's."""
    return kl.where((y == 0) | kl.isinf(x) | kl.isinf(y), x / y, x // y)


@function
def zero_like(x: kl.Scalar) -> Any:
    """Zero of the type of an integer, or a vector of zeros."""
    return x ^ x


@function
def float_remainder(x: kl.Scalar, y: kl.Scalar) -> Any:
    """The remainder with the divisor's sign; NaN where there is none."""
    return kl.where((y == 0) | kl.isinf(x), math.nan, x % y)


@function
def half_nextafter(x: kl.Scalar, y: kl.Scalar) -> Any:
    """The number of half precision that is next after `x` towards `y`; both are held in single."""
    size = kl.minimum(kl.abs(x), _BEYOND_HALF)
    outward = kl.where(x > 0, y > x, (y < x) | (x == 0))
    bits = kl.bitcast(size, kl.i32)
    near = kl.bitcast(kl.where(outward, bits + _HALF_BITS, bits - _HALF_BITS), kl.f32)
    subnormal = kl.where(outward, size < _HALF_NORMAL, size <= _HALF_NORMAL)
    least = kl.where(outward, size + _HALF_LEAST, size - _HALF_LEAST)
    neighbour = kl.copysign(kl.where(subnormal, least, near), kl.where(x == 0, y, x))
    return kl.where(x == y, y, kl.where((x != x) | (y != y), x + y, neighbour))


@function
def integer_power(x: kl.Scalar, y: kl.Scalar) -> Any:
    """``x`` to the power of ``y`` by squaring; wraps, and a negative power gives 1."""
    result = zero_like(x) + 1
    square = x
    rest = y
    while rest > 0:
        result = kl.where((rest & 1) == 1, result * square, result)
        square = square * square
        rest = rest >> 1
    return result


@function
def half_power(x: kl.Scalar) -> Any:
    """The square root as a power, which is not negative zero, and infinite of ``-inf``."""
    return kl.where(x == -math.inf, math.inf, kl.sqrt(x) + 0)


@function
def power_of_size(x: kl.Scalar, order: kl.Scalar) -> Any:
    """The absolute value to a power."""
    return kl.pow(kl.abs(x), order)


@function
def shifted_left(x: kl.Scalar, y: kl.Scalar) -> Any:
    """``x << y``: 0 once all bits are gone, where the language would shift by the rest."""
    return kl.where(y < x.dtype.bits, x << y, zero_like(x))


@function
def shifted_right(x: kl.Scalar, y: kl.Scalar) -> Any:
    """``x >> y``: only the sign is left of what is shifted by its width or further."""
    return kl.where(y < x.dtype.bits, x >> y, x >> (x.dtype.bits - 1) >> 1)


# Element-wise operations on arrays of whatever class.

ArrayT = TypeVar("ArrayT", bound=Storage)
"""The class of arrays: functions give arrays of the class that they are given."""


class _Apply(Protocol):
    def __call__(
        self, operation: Operation, *operands: ArrayT | complex, out: ArrayT | None = None
    ) -> ArrayT: ...


apply: Final[_Apply] = elementwise.apply
"""`portable.primitives.maps.elementwise.apply`, whose results are of its operands' class."""


def raised(x: Any, exponent: Any) -> tuple[Operation, tuple[Any, ...]]:
    """The operation, and its operands, that raises to a power: simpler ones for frequent powers."""
    kind: DType | None = getattr(x, "dtype", None)
    if kind is not None and type(exponent) in (int, float):
        simpler, kept = _POWERS.get(exponent), kind.kind in "fc" or type(exponent) is int
        if simpler is not None and kept and kind.kind in simpler.kinds:
            return simpler, (x,)
    return OPERATIONS["pow"], (x, exponent)


def is_expression(x: object) -> bool:
    """Whether it stands for an array, inside a function that is being fused."""
    return isinstance(x, Expression)


@cache
def filling(kind: DType) -> Operation:
    """The operation that fills an array with a number."""
    return Operation("full", "biufc", kl.positive, fixed=kind)


def filled(out: ArrayT, value: complex) -> ArrayT:
    """The array itself, all of whose elements are a number now."""
    return apply(filling(out.dtype), value, out=out)


# -- operations ------------------------------------------------------------------------------------

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
        Operation("isfinite", "iufc", kl.isfinite, same, result="bool"),
        Operation("isinf", "iufc", kl.isinf, unequal_to_itself, result="bool"),
        Operation("isnan", "iufc", kl.isnan, unequal_to_itself, result="bool"),
        Operation("log", "fc", kl.log),
        Operation("log1p", "fc", kl.log1p),
        Operation("log2", "fc", kl.log2),
        Operation("log10", "fc", kl.log10),
        Operation("logical_not", "b", kl.logical_not),
        Operation("negative", "iufc", kl.negative),
        Operation("positive", "iufc", kl.positive),
        Operation("reciprocal", "fc", kl.reciprocal, floats=None),
        Operation("round", "iufc", kl.round),
        Operation("sign", "iufc", kl.sign),
        Operation("signbit", "f", kl.signbit, result="bool"),
        Operation("sin", "fc", kl.sin),
        Operation("sinh", "fc", kl.sinh),
        Operation("sqrt", "fc", kl.sqrt),
        Operation("square", "iufc", kl.square),
        Operation("tan", "fc", kl.tan),
        Operation("tanh", "fc", bounded_tanh),
        Operation("trunc", "iuf", kl.trunc, kl.positive),
        Operation("add", "iufc", kl.add),
        Operation("atan2", "f", kl.atan2),
        Operation("bitwise_and", "biu", kl.bitwise_and),
        Operation("bitwise_left_shift", "iu", shifted_left),
        Operation("bitwise_or", "biu", kl.bitwise_or),
        Operation("bitwise_right_shift", "iu", shifted_right),
        Operation("bitwise_xor", "biu", kl.bitwise_xor),
        Operation("copysign", "f", kl.copysign),
        Operation("divide", "fc", kl.divide, floats=float64),
        Operation("equal", "biufc", kl.equal, result="bool"),
        Operation("floor_divide", "iuf", float_floor_divide, kl.floor_divide, alone="f"),
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
        Operation("nextafter", "f", kl.nextafter, half=half_nextafter, alone="f"),
        Operation("not_equal", "biufc", kl.not_equal, result="bool"),
        Operation("pow", "iufc", kl.pow, integer_power, alone="iu"),
        Operation("remainder", "iuf", float_remainder, kl.remainder, alone="f"),
        Operation("subtract", "iufc", kl.subtract),
    )
}

_POWERS: Final[dict[float, Operation]] = {
    2: OPERATIONS["square"],
    -1: OPERATIONS["reciprocal"],
    0.5: Operation("pow", "f", half_power),
}
"""Powers that are other functions, by their exponents."""
