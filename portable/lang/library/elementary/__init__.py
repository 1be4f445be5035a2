"""Elementary functions as functions of the language, made of fma, bits and polynomials.

For languages that have no such functions of their own (`portable.lang.passes.operators`). They keep
to the bounds in `portable.lang.ir.elementwise` on every processor and give the same bits on all.
"""

from __future__ import annotations

from typing import Final

from portable.lang.function import Function
from portable.lang.library.elementary.powers import (
    cbrt,
    exp,
    exp2,
    expm1,
    fmod,
    hypot,
    log,
    log1p,
    log2,
    log10,
    nextafter,
    pow,  # noqa: A004
    rsqrt,
)
from portable.lang.library.elementary.trigonometric import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    cos,
    cosh,
    sin,
    sinh,
    tan,
    tanh,
)

__all__ = ["ELEMENTARY"]

ELEMENTARY: Final[dict[str, Function]] = {
    f.__name__: f
    for f in (
        acos, acosh, asin, asinh, atan, atan2, atanh, cbrt, cos, cosh, exp, exp2, expm1, fmod,
        hypot, log, log10, log1p, log2, nextafter, pow, rsqrt, sin, sinh, tan, tanh,
    )
}  # fmt: skip
"""By the names that `portable.lang.ir.elementwise.FUNCTIONS` has."""
