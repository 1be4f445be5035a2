"""Sine, cosine and tangent: minimax polynomials within pi / 4 of 0, chosen by the quadrant."""

from __future__ import annotations

import math
from typing import Any, Final

from portable.dtypes import float32, int32, uint32
from portable.lang import words as kl
from portable.lang.function import function
from portable.lang.library.elementary import coefficients as c
from portable.lang.library.elementary.powers import (
    bits,
    by_type,
    from_bits,
    held,
    horner,
    log1p,
    log1p_plus,
    nearest,
    nearest_multiple,
    power_of_two,
    product,
    quick_sum,
    reduced,
    scaled,
    some,
    total,
)

# Arc functions: minimax polynomials near 0, elsewhere by theorems of addition.

_EIGHTH: Final = math.tan(math.pi / 8)


@function
def _arc(x: Any) -> Any:
    """``asin(|x|)`` where that is small; else ``asin(sqrt((1 - |x|) / 2))``; and which it is."""
    size = kl.abs(x)
    small = size <= 0.5
    z = kl.where(small, size * size, (1 - size) * 0.5)
    root = kl.where(small, size, kl.sqrt(z))
    polynomial = horner(z, by_type(x, c.ASIN_32, c.ASIN_64))
    return kl.fma(root * z, polynomial, root), small


@function
def asin(x: Any) -> Any:
    """The arc sine."""
    half_pi = by_type(x, c.HALF_PI_32, c.HALF_PI_64)
    arc, small = _arc(x)
    return kl.copysign(kl.where(small, arc, half_pi[0] - (2 * arc - half_pi[1])), x)


@function
def acos(x: Any) -> Any:
    """The arc cosine."""
    half_pi = by_type(x, c.HALF_PI_32, c.HALF_PI_64)
    arc, small = _arc(x)
    beside = half_pi[0] - (kl.where(small, kl.copysign(arc, x), arc) - half_pi[1])
    return kl.where(small, beside, 2 * kl.where(x > 0, arc, beside))


@function
def _quotient(y: Any, x: Any) -> Any:
    """``atan(y / x)`` of numbers that are not negative, turned by 0, 1 or 2 eighths of a turn."""
    half_pi = by_type(x, c.HALF_PI_32, c.HALF_PI_64)
    low, high = y <= _EIGHTH * x, y > x / _EIGHTH
    above = kl.where(low, y, kl.where(high, -x, y - x))
    below = kl.where(low, x, kl.where(high, y, y + x))
    t = above / kl.where(below == 0, 1.0, below)
    z = t * t
    turned = kl.where(low, 0.0, kl.where(high, half_pi[0], 0.5 * half_pi[0]))
    rest = kl.where(low, 0.0, kl.where(high, half_pi[1], 0.5 * half_pi[1]))
    return turned + (t + kl.fma(t * z, horner(z, by_type(x, c.ATAN_32, c.ATAN_64)), rest))


@function
def atan(x: Any) -> Any:
    """The arc tangent."""
    size = kl.abs(x)
    return kl.copysign(_quotient(size, kl.where(size == size, 1.0, size)), x)


@function
def atan2(x: Any, y: Any) -> Any:
    """The angle of the point (y, x)."""
    half_pi = by_type(x, c.HALF_PI_32, c.HALF_PI_64)
    height, width = kl.abs(x), kl.abs(y)
    endless = (height == math.inf) & (width == math.inf)
    most = by_type(x, 2.0**120, 2.0**1000)
    scale = kl.where((height > most) | (width > most), 0.25, 1.0)
    height = kl.where(endless, 1.0, height * scale)
    width = kl.where(endless, 1.0, width * scale)
    angle = _quotient(height, width)
    angle = kl.where(kl.signbit(y), 2 * half_pi[0] - (angle - 2 * half_pi[1]), angle)
    return kl.copysign(angle, x)


# Hyperbolic functions and their inverses, by ``exp(x) - 1`` and ``log(1 + x)``.
#
# So nothing cancels near 0 (N. J. Higham, *Accuracy and Stability of Numerical Algorithms*, 2002,
# section 1.14.1; W. Kahan, "Branch cuts for complex elementary functions", 1987).


@function
def sinh(x: Any) -> Any:
    """The hyperbolic sine: ``h + h / (2 * h + 1)`` where ``2 * h = exp(|x|) - 1``."""
    size = kl.abs(x)
    p, n = reduced(held(size, 0.0, by_type(x, 89.5, 710.5)))
    scale = power_of_two(n - 2)
    half = kl.fma(p, scale, scale - 0.25) * 2
    bounded = kl.where(half > 2.0**60, 2.0**60, half)
    value = half + bounded / (2 * bounded + 1)
    return kl.where(size < by_type(x, 2.0**-13, 2.0**-27), x, kl.copysign(value, x))


@function
def cosh(x: Any) -> Any:
    """The hyperbolic cosine: ``h + 1 / (4 * h)`` where ``2 * h = exp(|x|)``."""
    p, n = reduced(held(kl.abs(x), 0.0, by_type(x, 90.0, 711.0)))
    half = scaled(1 + p, n - 1)
    return half + 0.25 / half


@function
def tanh(x: Any) -> Any:
    """The hyperbolic tangent: ``t / (t + 2)`` where ``t = exp(2 * |x|) - 1``."""
    size = kl.abs(x)
    far = by_type(x, 10.0, 22.0)
    p, n = reduced(2 * kl.where(size > far, far, size))
    scale = power_of_two(n)
    t = kl.fma(p, scale, scale - 1)
    return kl.copysign(t / (t + 2), x)


@function
def asinh(x: Any) -> Any:
    """The inverse hyperbolic sine: log(1 + y), far out log(2 * y)."""
    size = kl.abs(x)
    far = size > by_type(x, 2.0**25, 2.0**54)
    near = kl.where(far, 1.0, size)
    more = near + near * near / (1 + kl.sqrt(kl.fma(near, near, 1.0)))
    value = log1p_plus(kl.where(far, size, more), kl.where(far, 1, 0))
    return kl.copysign(kl.where(size == 0, size, value), x)


@function
def acosh(x: Any) -> Any:
    """The inverse hyperbolic cosine: log(1 + y), far out log(2 * y)."""
    far = x > by_type(x, 2.0**25, 2.0**54)
    t = kl.where(far, 1.0, x - 1)
    more = t + kl.sqrt(kl.fma(t, t, 2 * t))
    value = log1p_plus(kl.where(far, x, more), kl.where(far, 1, 0))
    return kl.where(x == 1, 0.0, kl.where(x < 1, math.nan, value))


@function
def atanh(x: Any) -> Any:
    """The inverse hyperbolic tangent."""
    size = kl.abs(x)
    return kl.copysign(0.5 * log1p(2 * size / (1 - size)), x)


# Taking multiples of pi / 2 out of an angle.
#
# Single precision, whatever the angle, as M. Payne and R. Hanek, "Radian reduction for
# trigonometric functions", SIGNUM 18 (1983): the significand times those bits of 2 / pi that
# matter, in integers.
#
# Double precision: of angles of moderate size as W. J. Cody and W. Waite (1980), pi / 2 in three
# parts, products without error; of greater ones as Payne and Hanek, with sums of two numbers in the
# place of long integers, whole turns being dropped from each product.

_MODERATE: Final = 2.0**30
_CHUNK: Final = 48
_STEPS: Final = (16, 8, 4, 2, 1)
_TERMS: Final = 5
_GREAT: Final = 5
"""Of the products and their errors, those that may be more than a small part of a turn."""


@function
def quadrant(x: Any) -> Any:
    """The angle in two parts, within pi / 4 of 0, and how many quarters of a turn it is off."""
    return _quadrant32(x) if x.dtype == float32 else _quadrant64(x)


@function
def _quadrant32(x: Any) -> Any:
    size = kl.abs(x)
    number = kl.bitcast(size, uint32)
    significand = (number & 0x7FFFFF) | 0x800000
    high, middle, low = _window(kl.where(size < 0.5, uint32(6), (number >> 23) - 120))
    below = kl.mulhi(significand, low)
    second = significand * middle + below
    carry = kl.where(second < below, uint32(1), uint32(0))
    first = significand * high + kl.mulhi(significand, middle) + carry
    n = kl.cast((first + 0x20000000) >> 30, int32)
    whole = kl.bitcast(first, int32) - (n << 30)
    coarse = (whole + 128) & -256
    fine = kl.cast(whole - coarse, float32) + kl.cast(second, float32) * 2.0**-32
    quarter, left = quick_sum(kl.cast(coarse, float32), fine)
    quarter, left = quarter * 2.0**-30, left * 2.0**-30
    angle, error = product(quarter, c.HALF_PI_32[0])
    rest = error + kl.fma(left, c.HALF_PI_32[0], quarter * c.HALF_PI_32[1])
    small, sign = size <= c.HALF_PI_32[0] / 2, kl.copysign(1.0, x)
    angle = kl.where(small, x, kl.where(size < math.inf, angle * sign, math.nan))
    return angle, kl.where(small, 0.0, rest * sign), kl.where(small, 0, kl.where(x < 0, -n, n))


@function
def _window(start: Any) -> Any:
    """96 bits of 32 zeros and the bits of 2 / pi, from the one numbered `start`, below 160."""
    chunks = (0, *c.TWO_OVER_PI_WORDS)
    for step in (4, 2, 1):
        far = (start & (32 * step)) != 0
        chosen = chunks[:0]
        for i in kl.static_range(3 + step):
            here, there = uint32(chunks[i]), chunks[min(i + step, len(chunks) - 1)]
            chosen = (*chosen, kl.where(far, there, here))
        chunks = chosen
    up = start & 31
    down = 31 - up
    high = (chunks[0] << up) | ((chunks[1] >> 1) >> down)
    middle = (chunks[1] << up) | ((chunks[2] >> 1) >> down)
    return high, middle, (chunks[2] << up) | ((chunks[3] >> 1) >> down)


@function
def _quadrant64(x: Any) -> Any:
    k, n = nearest_multiple(x, 1 / c.HALF_PI_64[0])
    second, error = product(k, c.HALF_PI_64[1])
    angle, rest = total(kl.fma(-k, c.HALF_PI_64[0], x), -second)
    rest = (rest - error) - k * c.HALF_PI_64[2]
    large = kl.abs(x) > _MODERATE
    if some(large):
        high, low, quarters = _large64(x)
        angle = kl.where(large, high, angle)
        rest = kl.where(large, low, rest)
        n = kl.where(large, quarters, n)
    return angle, rest, n


@function
def _large64(x: Any) -> Any:
    """Of double precision: the first chunk that matters is found in powers of two steps."""
    y, chunks = x, c.TWO_OVER_PI_48
    for step in _STEPS:
        far = kl.abs(y) >= 2.0 ** (54 + _CHUNK * step)
        y = kl.where(far, y * 2.0 ** (-_CHUNK * step), y)
        needed = _TERMS + step - 1
        chosen = chunks[:0]
        for i in kl.static_range(needed):
            here = chunks[i] if i < len(chunks) else 0.0
            there = chunks[i + step] if i + step < len(chunks) else 0.0
            chosen = (*chosen, kl.where(far, there, here))
        chunks = chosen
    y = y * 0.25
    terms = product(y, chunks[0])
    for i in kl.static_range(1, _TERMS):
        terms = (*terms, *product(y * 2.0 ** (-_CHUNK * i), chunks[i]))
    turns, rest = y * 0.0, y * 0.0
    for term in terms[:_GREAT]:
        turns, error = total(turns, term - kl.rint(term))
        turns = turns - kl.rint(turns)
        rest = rest + error
    k, n = nearest(turns * 4)
    high, low = total(turns * 4 - k, rest * 4)
    for term in terms[_GREAT:]:
        high, error = total(high, 4 * term)
        low = low + error
    angle, error = product(high, c.HALF_PI_64[0])
    return angle, error + kl.fma(low, c.HALF_PI_64[0], high * c.HALF_PI_64[1]), n


@function
def _sine(angle: Any, rest: Any) -> Any:
    z = angle * angle
    return angle + kl.fma(angle * z, horner(z, by_type(angle, c.SIN_32, c.SIN_64)), rest)


@function
def _cosine(angle: Any, rest: Any) -> Any:
    z = angle * angle
    half = 0.5 * z
    near = 1 - half
    tail = kl.fma(z * z, horner(z, by_type(angle, c.COS_32, c.COS_64)), -(angle * rest))
    return near + (((1 - near) - half) + tail)


@function
def _turned(angle: Any, rest: Any, n: Any) -> Any:
    """The sine of an angle and `n` quarters of a turn."""
    value = kl.where((n & 1) == 0, _sine(angle, rest), _cosine(angle, rest))
    return from_bits(bits(value) ^ ((n >> 1) << by_type(angle, 31, 63)))


@function
def sin(x: Any) -> Any:
    """The sine."""
    angle, rest, n = quadrant(x)
    return kl.where(x == 0, x, _turned(angle, rest, n))


@function
def cos(x: Any) -> Any:
    """The cosine."""
    angle, rest, n = quadrant(x)
    return _turned(angle, rest, n + 1)


@function
def tan(x: Any) -> Any:
    """The tangent: the quotient of both, or its negative inverse."""
    angle, rest, n = quadrant(x)
    sine, cosine = _sine(angle, rest), _cosine(angle, rest)
    even = (n & 1) == 0
    quotient = kl.where(even, sine, -cosine) / kl.where(even, cosine, sine)
    return kl.where(x == 0, x, quotient)
