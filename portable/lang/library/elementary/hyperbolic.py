"""Hyperbolic functions and their inverses, by ``exp(x) - 1`` and ``log(1 + x)``.

So nothing cancels near 0 (N. J. Higham, *Accuracy and Stability of Numerical Algorithms*, 2002,
section 1.14.1; W. Kahan, "Branch cuts for complex elementary functions", 1987).
"""

from __future__ import annotations

import math
from typing import Any

from portable.lang import words as kl
from portable.lang.function import function
from portable.lang.library.elementary.common import by_type, power_of_two, scaled
from portable.lang.library.elementary.exponentials import held, reduced
from portable.lang.library.elementary.logarithms import log1p, log1p_plus


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
