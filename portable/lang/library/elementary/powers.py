"""Powers: ``2 ** (y * log2(x))`` with the logarithm to more digits than the result has.

Single precision is worked out in double precision. In double precision the logarithm is a sum of
two numbers, by T. J. Dekker's products and sums (1971), good for 65 bits. Zeros and infinities have
infinite logarithms and come out right by themselves; the rest of C99's special cases (Annex F) are
chosen at the end.
"""

from __future__ import annotations

import math
from typing import Any

from portable.dtypes import float32, float64, int32
from portable.lang import words as kl
from portable.lang.function import function
from portable.lang.library.elementary import coefficients as c
from portable.lang.library.elementary.common import (
    horner,
    nearest,
    product,
    quick_sum,
    scaled,
    split,
    whole_number,
)
from portable.lang.library.elementary.exponentials import expm1_near_0, held


@function
def pow(x: Any, y: Any) -> Any:
    """`x` to the power of `y`."""
    size = kl.abs(x)
    value = _magnitude32(size, y) if x.dtype == float32 else _magnitude64(size, y)
    whole = kl.rint(y) == y
    odd = whole & (kl.rint(0.5 * y) != 0.5 * y)
    value = kl.where(odd, kl.copysign(value, x), value)
    value = kl.where((x < 0) & ~whole & (size != math.inf), math.nan, value)
    one = (x == 1) | (y == 0) | ((x == -1) & (kl.abs(y) == math.inf))
    return kl.where(one, 1.0, value)


@function
def _endless(size: Any, logarithm: Any) -> Any:
    """The logarithm, also of 0 and infinity; NaN of NaN."""
    inside = kl.where(size == math.inf, math.inf, kl.where(size == size, logarithm, size))
    return kl.where(size == 0, -math.inf, inside)


@function
def _magnitude32(size: Any, y: Any) -> Any:
    wide = kl.cast(size, float64)
    m, n = split(wide)
    f = m - 1
    s = f / (2 + f)
    z = s * s
    ln = kl.fma(s * z, horner(z, c.LOG_SHORT_64), 2 * s)
    logarithm = kl.fma(ln, c.LOG2_E_64[0], whole_number(n))
    power = held(kl.cast(y, float64) * _endless(wide, logarithm), -200.0, 200.0)
    k, n = nearest(power)
    r = kl.cast((power - k) * c.LN2_64[0], float32)
    return scaled(1 + expm1_near_0(r), kl.cast(n, int32))


@function
def _magnitude64(size: Any, y: Any) -> Any:
    high, low = _logarithm(size)
    power = y * high
    rest = kl.fma(y, high, -power) + y * low
    power = held(power, -1100.0, 1100.0)
    rest = kl.where(kl.abs(power) < 1100, rest, 0.0)
    k, n = nearest(power)
    return scaled(1 + expm1_near_0(((power - k) + rest) * c.LN2_64[0]), n)


@function
def _logarithm(x: Any) -> Any:
    """``log2(x)`` as a sum of two numbers."""
    m, n = split(x)
    f = m - 1
    below = 2 + f
    s = f / below
    s_low = (kl.fma(-s, below, f) - s * (f - (below - 2))) / below
    z, z_low = product(s, s)
    z_low = kl.fma(2 * s, s_low, z_low)
    cube, cube_low = product(s, z)
    cube_low = cube_low + kl.fma(s, z_low, s_low * z)
    third, third_low = product(cube, c.TWO_THIRDS_64[0])
    third_low = third_low + kl.fma(cube, c.TWO_THIRDS_64[1], cube_low * c.TWO_THIRDS_64[0])
    tail = cube * z * horner(z, c.LOG_TAIL_64)
    ln, ln_low = quick_sum(2 * s, third)
    ln_low = ln_low + (kl.fma(2.0, s_low, third_low) + tail)
    binary, binary_low = product(ln, c.LOG2_E_64[0])
    binary_low = binary_low + kl.fma(ln, c.LOG2_E_64[1], ln_low * c.LOG2_E_64[0])
    high, low = quick_sum(whole_number(n), binary)
    return _endless(x, high), low + binary_low
