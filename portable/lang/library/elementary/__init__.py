"""Elementary functions as functions of the language, made of fma, bits and polynomials.

For languages that have no such functions of their own (`portable.lang.passes.functions`). They keep
to the bounds in `portable.lang.ir.elementwise` on every processor and give the same bits on all.
"""

from __future__ import annotations

from typing import Final

from portable.lang.function import Function
from portable.lang.library.elementary.exponentials import exp, exp2, expm1
from portable.lang.library.elementary.hyperbolic import acosh, asinh, atanh, cosh, sinh, tanh
from portable.lang.library.elementary.inverse_trigonometric import acos, asin, atan, atan2
from portable.lang.library.elementary.logarithms import log, log1p, log2, log10
from portable.lang.library.elementary.powers import pow  # noqa: A004
from portable.lang.library.elementary.remainders import fmod, nextafter
from portable.lang.library.elementary.roots import cbrt, hypot, rsqrt
from portable.lang.library.elementary.trigonometric import cos, sin, tan

__all__ = ["ELEMENTARY"]

ELEMENTARY: Final[dict[str, Function]] = {
    f.__name__: f
    for f in (
        acos, acosh, asin, asinh, atan, atan2, atanh, cbrt, cos, cosh, exp, exp2, expm1, fmod,
        hypot, log, log10, log1p, log2, nextafter, pow, rsqrt, sin, sinh, tan, tanh,
    )
}  # fmt: skip
"""By the names that `portable.lang.ir.elementwise.FUNCTIONS` has."""
