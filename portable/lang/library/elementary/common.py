"""What the elementary functions share: bits of numbers, powers of two, polynomials, exact sums.

Every sum and product here is rounded by itself; `kl.fma` stands where one rounding is meant.
"""

from __future__ import annotations

import math
from typing import Any

from portable.dtypes import float32, float64, int32, int64
from portable.lang import words as kl
from portable.lang.function import function


@function
def by_type(x: Any, single: Any, double: Any) -> Any:
    """One of two constants: that for the type of `x`."""
    return single if x.dtype == float32 else double


@function
def bits(x: Any) -> Any:
    """The bits of a float as a signed integer."""
    return kl.bitcast(x, by_type(x, int32, int64))


@function
def from_bits(n: Any) -> Any:
    """The float of some bits."""
    return kl.bitcast(n, float32 if n.dtype == int32 else float64)


@function
def some(mask: Any) -> Any:
    """Whether a bool holds, or one lane of a vector of them."""
    return mask if mask.lanes == 1 else kl.count(mask) > 0


@function
def horner(x: Any, coefficients: Any) -> Any:
    """A polynomial, its coefficients given from the lowest power on."""
    value = coefficients[-1]
    for i in kl.static_range(len(coefficients) - 1):
        value = kl.fma(x, value, coefficients[len(coefficients) - 2 - i])
    return value


# -- powers of two ------------------------------------------------------------------------------


@function
def power_of_two(n: Any) -> Any:
    """``2 ** n``, a normal number."""
    return from_bits((n + 127) << 23 if n.dtype == int32 else (n + 1023) << 52)


@function
def scaled(x: Any, n: Any) -> Any:
    """``x * 2 ** n``, rounded once, for `x` near 1: beyond the normal numbers in two steps."""
    half = n >> 1
    return x * power_of_two(half) * power_of_two(n - half)


@function
def nearest_multiple(x: Any, factor: Any) -> Any:
    """The whole number nearest to ``x * factor``, as a float and as an integer.

    A number is added that has no digits behind the point, and taken away again; the product may
    have 22 bits before the point, in double precision 51.
    """
    magic = by_type(x, 1.5 * 2.0**23, 1.5 * 2.0**52)
    shifted = kl.fma(x, factor, magic)
    return shifted - magic, bits(shifted) - by_type(x, 0x4B400000, 0x4338000000000000)


@function
def nearest(x: Any) -> Any:
    """The whole number nearest to `x`, as a float and as an integer; as `nearest_multiple`."""
    magic = by_type(x, 1.5 * 2.0**23, 1.5 * 2.0**52)
    shifted = x + magic
    return shifted - magic, bits(shifted) - by_type(x, 0x4B400000, 0x4338000000000000)


@function
def whole_number(n: Any) -> Any:
    """An integer of less than 22 (51) bits as a float, by the same means."""
    magic = from_bits(n + (0x4B400000 if n.dtype == int32 else 0x4338000000000000))
    return magic - (1.5 * 2.0**23 if n.dtype == int32 else 1.5 * 2.0**52)


@function
def split(x: Any) -> Any:
    """`m` from sqrt(1 / 2) to sqrt(2) and an integer `n` such that ``x = m * 2 ** n``.

    `x` is positive and finite; of anything else something is found.
    """
    small = x < by_type(x, 2.0**-126, 2.0**-1022)
    b = bits(kl.where(small, x * 2.0**64, x))
    if x.dtype == float32:
        n = (b - 0x3F3504F3) >> 23
        m = from_bits(b - (n << 23))
    else:
        n = (b - 0x3FE6A09E667F3BCD) >> 52
        m = from_bits(b - (n << 52))
    return m, n - kl.where(small, 64, 0)


# -- sums and products without error (T. J. Dekker, D. E. Knuth) --------------------------------


@function
def total(x: Any, y: Any) -> Any:
    """``x + y`` and what rounding it left out."""
    s = x + y
    virtual = s - x
    return s, (x - (s - virtual)) + (y - virtual)


@function
def quick_sum(x: Any, y: Any) -> Any:
    """As `total`, where `x` is 0 or not the smaller one."""
    s = x + y
    return s, y - (s - x)


@function
def product(x: Any, y: Any) -> Any:
    """``x * y`` and what rounding it left out."""
    p = x * y
    return p, kl.fma(x, y, -p)


# The remainder of a division, and a number's neighbour.


@function
def _significand(x: Any) -> Any:
    """`m` from 1 to 2 and an integer `n` such that ``x = m * 2 ** n``, `x` positive, finite."""
    small = x < by_type(x, 2.0**-126, 2.0**-1022)
    b = bits(kl.where(small, x * 2.0**64, x))
    if x.dtype == float32:
        n = (b >> 23) - 127
        m = from_bits(b - (n << 23))
    else:
        n = (b >> 52) - 1023
        m = from_bits(b - (n << 52))
    return m, n - kl.where(small, 64, 0)


@function
def fmod(x: Any, y: Any) -> Any:
    """What division toward zero leaves, exactly: long division, many bits of the quotient a step.

    A quotient that was rounded is at most one too large, and fma gives what it leaves exactly.
    """
    a, b = kl.abs(x), kl.abs(y)
    usual = (a < math.inf) & (b > 0) & (b < math.inf) & (a >= b)
    m, n = _significand(kl.where(usual, a, 1.0))
    divisor, exponent = _significand(kl.where(usual, b, 1.0))
    left, digits = kl.where(m >= divisor, m - divisor, m), n - exponent
    most = by_type(x, 22, 51)
    while some(digits > 0):
        step = kl.where(digits > most, most, digits)
        raised = left * power_of_two(step)
        left = kl.fma(-kl.trunc(raised / divisor), divisor, raised)
        left = kl.where(left < 0, left + divisor, left)
        digits = digits - step
    kept = (a < b) & (b == b)
    value = kl.where(usual, scaled(left, exponent), kl.where(kept, a, math.nan))
    return kl.copysign(value, x)


@function
def nextafter(x: Any, y: Any) -> Any:
    """The neighbour of `x` on the side of `y`."""
    b = bits(x)
    outward = (x < y) == (x > 0)
    moved = from_bits(kl.where(outward, b + 1, b - 1))
    least = kl.copysign(by_type(x, 2.0**-149, 2.0**-1074), y)
    value = kl.where(x == 0, least, moved)
    return kl.where((x != x) | (y != y), math.nan, kl.where(x == y, y, value))
