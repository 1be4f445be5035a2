"""The remainder of a division, and a number's neighbour."""

from __future__ import annotations

import math
from typing import Any

from portable.dtypes import float32
from portable.lang import words as kl
from portable.lang.function import function
from portable.lang.library.elementary.common import (
    bits,
    by_type,
    from_bits,
    power_of_two,
    scaled,
    some,
)


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
