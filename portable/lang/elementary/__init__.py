"""Elementary functions as functions of the language, made of fma, bits and polynomials.

For languages that have no such functions of their own (`portable.lang.passes.functions`). They keep
to the bounds in `portable.lang.elementwise` on every processor and give the same bits on all.
"""

from __future__ import annotations

from typing import Final

from portable.lang.elementary.exponentials import exp, exp2, expm1
from portable.lang.elementary.hyperbolic import acosh, asinh, atanh, cosh, sinh, tanh
from portable.lang.elementary.inverse_trigonometric import acos, asin, atan, atan2
from portable.lang.elementary.logarithms import log, log1p, log2, log10
from portable.lang.elementary.powers import pow  # noqa: A004
from portable.lang.elementary.remainders import fmod, nextafter
from portable.lang.elementary.roots import cbrt, hypot, rsqrt
from portable.lang.elementary.trigonometric import cos, sin, tan
from portable.lang.function import Function

__all__ = ["ELEMENTARY"]

ELEMENTARY: Final[dict[str, Function]] = {
    f.__name__: f
    for f in (
        acos, acosh, asin, asinh, atan, atan2, atanh, cbrt, cos, cosh, exp, exp2, expm1, fmod,
        hypot, log, log10, log1p, log2, nextafter, pow, rsqrt, sin, sinh, tan, tanh,
    )
}  # fmt: skip
"""By the names that `portable.lang.elementwise.FUNCTIONS` has."""
