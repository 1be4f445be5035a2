"""Sine, cosine and tangent: minimax polynomials within pi / 4 of 0, chosen by the quadrant."""

from __future__ import annotations

from typing import Any

from portable.lang import words as kl
from portable.lang.function import function
from portable.lang.library.elementary import coefficients as c
from portable.lang.library.elementary.angles import quadrant
from portable.lang.library.elementary.common import bits, by_type, from_bits, horner

__all__ = ["cos", "sin", "tan"]


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
