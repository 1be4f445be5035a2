"""Taking multiples of pi / 2 out of an angle.

Angles of moderate size: as W. J. Cody and W. Waite (1980), pi / 2 in three parts, each product with
the multiple being rounded once by fma. Greater ones: as M. Payne and R. Hanek, "Radian reduction
for trigonometric functions", SIGNUM 18 (1983): of x times the bits of 2 / pi only those that matter
are added up, in double precision, whole turns being dropped from each product.
"""

from __future__ import annotations

from typing import Any, Final

from portable.dtypes import float32, float64, int32
from portable.lang import words as kl
from portable.lang.elementary import coefficients as c
from portable.lang.elementary.common import (
    by_type,
    nearest,
    nearest_multiple,
    product,
    some,
    total,
)
from portable.lang.function import function

__all__ = ["quadrant"]

_MODERATE: Final = (2.0**17, 2.0**30)
_CHUNK: Final = 48
_STEPS: Final = (16, 8, 4, 2, 1)
_TERMS: Final = 5
_GREAT: Final = 5
"""Of the products and their errors, those that may be more than a small part of a turn."""


@function
def quadrant(x: Any) -> Any:
    """The angle in two parts, within pi / 4 of 0, and how many quarters of a turn it is off."""
    half_pi = by_type(x, c.HALF_PI_32, c.HALF_PI_64)
    k, n = nearest_multiple(x, 1 / c.HALF_PI_64[0])
    second, error = product(k, half_pi[1])
    angle, rest = total(kl.fma(-k, half_pi[0], x), -second)
    rest = (rest - error) - k * half_pi[2]
    large = kl.abs(x) > by_type(x, *_MODERATE)
    if some(large):
        high, low, quarters = _large32(x) if x.dtype == float32 else _large64(x)
        angle = kl.where(large, high, angle)
        rest = kl.where(large, low, rest)
        n = kl.where(large, quarters, n)
    return angle, rest, n


@function
def _large32(x: Any) -> Any:
    """Of single precision: products with 24 bits at a time are exact in double precision."""
    y = kl.cast(x, float64) * 0.25
    turns = y * c.TWO_OVER_PI_24[0]
    turns = turns - kl.rint(turns)
    for i in kl.static_range(1, len(c.TWO_OVER_PI_24)):
        term = y * (c.TWO_OVER_PI_24[i] * 2.0 ** (-24 * i))
        turns = turns + (term - kl.rint(term))
        turns = turns - kl.rint(turns)
    k, n = nearest(turns * 4)
    angle = (turns * 4 - k) * c.HALF_PI_64[0]
    high = kl.cast(angle, float32)
    return high, kl.cast(angle - kl.cast(high, float64), float32), kl.cast(n, int32)


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
