"""Roots, and the length of a vector of two."""

from __future__ import annotations

import math
from typing import Any

from portable.dtypes import float32, float64, int32, int64
from portable.lang import words as kl
from portable.lang.function import function
from portable.lang.library.elementary.common import bits, by_type, from_bits


@function
def rsqrt(x: Any) -> Any:
    """``1 / sqrt(x)``."""
    return 1 / kl.sqrt(x)


@function
def _nearer(root: Any, x: Any) -> Any:
    """E. Halley's step to the cube root: three times as many digits are right."""
    cube = root * root * root
    return root * ((cube + 2 * x) / (2 * cube + x))


@function
def cbrt(x: Any) -> Any:
    """The cube root: a third of the exponent's bits, then Halley's steps; the last one finer."""
    size = kl.abs(x)
    small, large = size < by_type(x, 2.0**-126, 2.0**-1022), size > 2.0**120
    up, down = kl.where(small, 2.0**60, 1.0), kl.where(large, 2.0**-30, 1.0)
    y = size * up * down
    if x.dtype == float32:
        guess = _nearer(from_bits(kl.mulhi(bits(y), 0x55555556) + 0x2A5119F2), y)
        value = kl.cast(_nearer(kl.cast(guess, float64), kl.cast(y, float64)), float32)
    else:
        third = kl.mulhi(kl.cast(bits(y) >> 32, int32), 0x55555556) + 0x2A9F7893
        guess = _nearer(_nearer(from_bits(kl.cast(third, int64) << 32), y), y)
        square = guess * guess
        left = kl.fma(square, guess, -y) + kl.fma(guess, guess, -square) * guess
        value = guess - left / (3 * square)
    value = value * kl.where(small, 2.0**-20, 1.0) * kl.where(large, 2.0**10, 1.0)
    itself = (x == 0) | (size == math.inf) | (x != x)
    return kl.where(itself, x, kl.copysign(value, x))


@function
def hypot(x: Any, y: Any) -> Any:
    """``sqrt(x * x + y * y)``; infinite where one of them is."""
    a, b = kl.abs(x), kl.abs(y)
    if x.dtype == float32:
        p, q = kl.cast(a, float64), kl.cast(b, float64)
        value = kl.cast(kl.sqrt(kl.fma(p, p, q * q)), float32)
    else:
        large, small = (a > 2.0**500) | (b > 2.0**500), (a < 2.0**-400) & (b < 2.0**-400)
        scale = kl.where(large, 2.0**-600, kl.where(small, 2.0**600, 1.0))
        back = kl.where(large, 2.0**600, kl.where(small, 2.0**-600, 1.0))
        p, q = kl.where(a > b, a, b) * scale, kl.where(a > b, b, a) * scale
        value = kl.sqrt(kl.fma(p, p, q * q)) * back
    return kl.where((a == math.inf) | (b == math.inf), math.inf, value)
