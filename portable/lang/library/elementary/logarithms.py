"""Logarithms: ``x = m * 2 ** n`` with `m` from sqrt(1 / 2) to sqrt(2).

In single precision ``log1p(f) = f + f ** 2 * P(f)``; in double precision by the quotient
``s = f / (2 + f)``, whose odd series ``log1p(f) = 2 * s + s ** 3 * P(s ** 2)`` converges faster
(J.-M. Muller et al., *Handbook of Floating-Point Arithmetic*, 2018, chapter 10). `n` is multiplied
by log(2) in two parts.
"""

from __future__ import annotations

import math
from typing import Any

from portable.dtypes import float32
from portable.lang import words as kl
from portable.lang.function import function
from portable.lang.library.elementary import coefficients as c
from portable.lang.library.elementary.common import (
    by_type,
    horner,
    power_of_two,
    split,
    whole_number,
)


@function
def _tail(f: Any) -> Any:
    """``log1p(f) - f`` for ``1 + f`` from sqrt(1 / 2) to sqrt(2)."""
    if f.dtype == float32:
        return f * f * horner(f, c.LOG1P_32)
    half = 0.5 * f * f
    s = f / (2 + f)
    z = s * s
    return kl.fma(s, kl.fma(z, horner(z, c.LOG_64), half), -half)


@function
def _ends(x: Any, value: Any) -> Any:
    """A logarithm of positive finite numbers completed by what it is of others."""
    inside = kl.where(x == math.inf, math.inf, value)
    return kl.where(x > 0, inside, kl.where(x == 0, -math.inf, math.nan))


@function
def log(x: Any) -> Any:
    """The natural logarithm."""
    ln2 = by_type(x, c.LN2_32, c.LN2_64)
    m, n = split(x)
    f, k = m - 1, whole_number(n)
    return _ends(x, kl.fma(k, ln2[0], f + kl.fma(k, ln2[1], _tail(f))))


@function
def _based(x: Any, factor: Any, step: Any) -> Any:
    """``log(m) * factor + n * step``, both constants in parts."""
    m, n = split(x)
    f, k = m - 1, whole_number(n)
    t = _tail(f)
    y = f + t
    left = t - (y - f)
    low = kl.fma(k, step[1], kl.fma(y, factor[1], left * factor[0]))
    return _ends(x, kl.fma(k, step[0], kl.fma(y, factor[0], low)))


@function
def log2(x: Any) -> Any:
    """The logarithm to base 2; exact of powers of two."""
    return _based(x, by_type(x, c.LOG2_E_32, c.LOG2_E_64), (1.0, 0.0))


@function
def log10(x: Any) -> Any:
    """The logarithm to base 10."""
    factor = by_type(x, c.LOG10_E_32, c.LOG10_E_64)
    return _based(x, factor, by_type(x, c.LOG10_2_32, c.LOG10_2_64))


@function
def log1p_plus(x: Any, twos: Any) -> Any:
    """``log((1 + x) * 2 ** twos)``; what rounding ``1 + x`` left out is made good."""
    ln2 = by_type(x, c.LN2_32, c.LN2_64)
    u = 1 + x
    left = kl.where(x > 1, 1 - (u - x), x - (u - 1))
    m, n = split(u)
    f = kl.where(n == 0, x, m - 1)
    low = left * power_of_two(-kl.where(n > 100, 100, n)) * kl.fma(f, f, 1 - f)
    k = whole_number(n + twos)
    tail = _tail(f) + kl.fma(k, ln2[1], kl.where(n == 0, 0.0, low))
    return _ends(u, kl.fma(k, ln2[0], f + tail))


@function
def log1p(x: Any) -> Any:
    """``log(1 + x)``."""
    return kl.where(x == 0, x, log1p_plus(x, 0))
