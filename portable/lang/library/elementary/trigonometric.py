"""Sine, cosine and tangent: minimax polynomials within pi / 4 of 0, chosen by the quadrant."""

from __future__ import annotations

import math
from typing import Any, Final

from portable.dtypes import float32, int32, uint32
from portable.lang import words as kl
from portable.lang.function import function
from portable.lang.library.elementary import coefficients as c
from portable.lang.library.elementary.common import (
    bits,
    by_type,
    from_bits,
    horner,
    nearest,
    nearest_multiple,
    product,
    quick_sum,
    some,
    total,
)

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
