"""Exponentials: reduction by multiples of log(2) in two parts, as W. J. Cody and W. Waite do.

*Software Manual for the Elementary Functions* (1980). What is left lies within log(2) / 2 of 0,
where ``exp(r) - 1 = r + r ** 2 * P(r)`` with a minimax polynomial. NaN passes through, and what
overflows or vanishes does so by itself, since arguments are held to where the result is settled.
"""

from __future__ import annotations

from typing import Any

from portable.lang import words as kl
from portable.lang.function import function
from portable.lang.library.elementary import coefficients as c
from portable.lang.library.elementary.common import (
    by_type,
    horner,
    nearest,
    nearest_multiple,
    power_of_two,
    scaled,
)


@function
def held(x: Any, low: Any, high: Any) -> Any:
    """`x` between two bounds; NaN stays."""
    return kl.where(x > high, high, kl.where(x < low, low, x))


@function
def expm1_near_0(r: Any) -> Any:
    """``exp(r) - 1`` for `r` up to log(2) / 2."""
    return kl.fma(r * r, horner(r, by_type(r, c.EXPM1_32, c.EXPM1_64)), r)


@function
def reduced(x: Any) -> Any:
    """`p` and an integer `n` such that ``exp(x) = (1 + p) * 2 ** n``."""
    ln2 = by_type(x, c.LN2_32, c.LN2_64)
    k, n = nearest_multiple(x, c.LOG2_E_64[0])
    r = kl.fma(-k, ln2[1], kl.fma(-k, ln2[0], x))
    return expm1_near_0(r), n


@function
def exp(x: Any) -> Any:
    """E to the power of `x`."""
    p, n = reduced(held(x, by_type(x, -104.0, -746.0), by_type(x, 89.0, 710.0)))
    return scaled(1 + p, n)


@function
def exp2(x: Any) -> Any:
    """2 to the power of `x`."""
    x = held(x, by_type(x, -151.0, -1076.0), by_type(x, 129.0, 1025.0))
    k, n = nearest(x)
    return scaled(1 + expm1_near_0((x - k) * c.LN2_64[0]), n)


@function
def expm1(x: Any) -> Any:
    """``exp(x) - 1``: ``2 ** n * p + (2 ** n - 1)``, a quarter of it against early overflow."""
    p, n = reduced(held(x, by_type(x, -30.0, -60.0), by_type(x, 89.0, 710.0)))
    scale = power_of_two(n - 2)
    far = kl.fma(p, scale, scale - 0.25) * 4
    return kl.where(x == 0, x, kl.where(n == 0, p, far))
