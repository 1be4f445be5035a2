"""Arc functions: minimax polynomials near 0, elsewhere by theorems of addition."""

from __future__ import annotations

import math
from typing import Any, Final

from portable.lang import words as kl
from portable.lang.function import function
from portable.lang.library.elementary import coefficients as c
from portable.lang.library.elementary.common import by_type, horner

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
    pi = by_type(x, c.PI_32, c.PI_64)
    height, width = kl.abs(x), kl.abs(y)
    endless = (height == math.inf) & (width == math.inf)
    most = by_type(x, 2.0**120, 2.0**1000)
    scale = kl.where((height > most) | (width > most), 0.25, 1.0)
    height = kl.where(endless, 1.0, height * scale)
    width = kl.where(endless, 1.0, width * scale)
    angle = _quotient(height, width)
    angle = kl.where(kl.signbit(y), pi[0] - (angle - pi[1]), angle)
    return kl.copysign(angle, x)
