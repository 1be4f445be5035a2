"""What element-wise operations on real numbers mean to a kernel, where no word says it."""

from __future__ import annotations

import math
from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function

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
