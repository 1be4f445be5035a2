"""What element-wise functions mean for complex numbers: helper functions of the language itself.

Special values are those of C99's Annex G and of the Array API standard. Branch cuts and signs of
zero follow W. Kahan, "Branch cuts for complex elementary functions", in *The State of the Art in
Numerical Analysis* (1987). There are no branches, so that the parts may be vectors.

Errors are bounded in units in the last place of the larger part of the result: where one part is
much the smaller (the real part of a logarithm near the unit circle), it has the larger one's
absolute error.
"""

from __future__ import annotations

import math
from typing import Any, Final

from portable.dtypes import float32
from portable.lang import words as kl
from portable.lang.function import Function, function

_LN2: Final = 0.6931471805599453
_HALF_PI: Final = 1.5707963267948966
_FAR: Final = 22.0
"""From here on sinh and cosh are half of exp, to double precision."""
_LARGE: Final = 1e9
"""From here on 1 is lost beside a square, to double precision."""
_HUGE: Final = 1e17
"""From here on 1 is lost beside a number."""
_DOWN: Final = 2.0**-4
_UP: Final = 2.0**60
"""Powers of four, the second such that subnormal numbers become normal ones."""


# -- keeping within the range of the exponent ---------------------------------------------------


@function
def _by_size(z: Any, large: float, small: float, usual: float) -> Any:
    """A constant for numbers near overflow, one for those near underflow, one for all others."""
    size = kl.maximum(kl.abs(z.real), kl.abs(z.imag))
    high, low = (2.0**124, 2.0**-96) if size.dtype == float32 else (2.0**1020, 2.0**-900)
    return kl.where(size > high, large, kl.where(size < low, small, usual))


@function
def _scale(z: Any) -> Any:
    """A power of two to multiply a number by, so that it stays clear of overflow and underflow."""
    return _by_size(z, _DOWN, _UP, 1.0)


@function
def _scaled(z: Any, scale: Any) -> Any:
    """`z` with both parts multiplied."""
    return kl.complex(z.real * scale, z.imag * scale)


@function
def _turned(z: Any) -> Any:
    """``i z``."""
    return kl.complex(-z.imag, z.real)


@function
def _turned_back(z: Any) -> Any:
    """``-i z``."""
    return kl.complex(z.imag, -z.real)


@function
def _no_angle(y: Any) -> Any:
    """Whether a number has no sine: it is infinite or NaN."""
    return y - y != 0


# -- operators ----------------------------------------------------------------------------------


@function
def add(a: Any, b: Any) -> Any:
    """``a + b``."""
    return kl.complex(a.real + b.real, a.imag + b.imag)


@function
def add_real(a: Any, x: Any) -> Any:
    """``a + x``, `x` real."""
    return kl.complex(a.real + x, a.imag)


@function
def subtract(a: Any, b: Any) -> Any:
    """``a - b``."""
    return kl.complex(a.real - b.real, a.imag - b.imag)


@function
def subtract_real(a: Any, x: Any) -> Any:
    """``a - x``, `x` real."""
    return kl.complex(a.real - x, a.imag)


@function
def subtract_from_real(x: Any, b: Any) -> Any:
    """``x - b``, `x` real."""
    return kl.complex(x - b.real, -b.imag)


@function
def multiply(a: Any, b: Any) -> Any:
    """``a * b`` by the textbook, which does not look after infinities."""
    return kl.complex(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real)


@function
def multiply_real(a: Any, x: Any) -> Any:
    """``a * x``, `x` real."""
    return kl.complex(a.real * x, a.imag * x)


@function
def divide_by_real(a: Any, x: Any) -> Any:
    """``a / x``, `x` real."""
    return kl.complex(a.real / x, a.imag / x)


@function
def _divisor(b: Any) -> Any:
    """What R. L. Smith, "Algorithm 116: Complex division", CACM 5 (1962), finds of a divisor.

    Whether the real part is the larger, the ratio of the parts, what both quotients are divided by,
    and the power of two by which to multiply after: the divisor is scaled to where the formula
    cannot overflow. Zero divides into infinities, as in Annex G.
    """
    scale = _scale(b)
    c, d = b.real * scale, b.imag * scale
    wide = kl.abs(c) >= kl.abs(d)
    large, small = kl.where(wide, c, d), kl.where(wide, d, c)
    sign = kl.copysign(1.0, large) * kl.copysign(1.0, small)
    ratio = kl.where(kl.isinf(small), sign, kl.where(large == 0, 0.0, small / large))
    return wide, ratio, kl.where(large == 0, b.real, large + small * ratio), scale


@function
def divide(a: Any, b: Any) -> Any:
    """``a / b``, `a` scaled as the divisor is."""
    wide, ratio, divisor, after = _divisor(b)
    before = _scale(a)
    x, y = a.real * before, a.imag * before
    real = kl.where(wide, x, y) + kl.where(wide, y, x) * ratio
    imag = kl.where(wide, y, -x) - kl.where(wide, x, -y) * ratio
    return _scaled(kl.complex(real / divisor, imag / divisor), after / before)


@function
def divide_real(x: Any, b: Any) -> Any:
    """``x / b``, `x` real."""
    wide, ratio, divisor, after = _divisor(b)
    long, short = x / divisor, x * ratio / divisor
    imag = kl.where(wide, short, long)
    return _scaled(kl.complex(kl.where(wide, long, short), -imag), after)


# -- powers and logarithms ----------------------------------------------------------------------


@function
def reciprocal(z: Any) -> Any:
    """``1 / z``."""
    return divide_real(1.0, z)


@function
def sign(z: Any) -> Any:
    """``z / abs(z)``, and 0 of 0, whatever its signs."""
    w = _scaled(z, _scale(z))
    size = kl.hypot(w.real, w.imag)
    zero = size == 0
    way = divide_by_real(w, kl.where(zero, 1.0, size))
    return kl.complex(kl.where(zero, 0.0, way.real), kl.where(zero, 0.0, way.imag))


@function
def square(z: Any) -> Any:
    """``z * z``, whose real part does not cancel."""
    return kl.complex((z.real - z.imag) * (z.real + z.imag), 2 * (z.real * z.imag))


@function
def sqrt(z: Any) -> Any:
    """The square root whose real part is not negative."""
    w = _scaled(z, _scale(z))
    root = kl.sqrt((kl.hypot(w.real, w.imag) + kl.abs(w.real)) / 2)
    root = root * _by_size(z, _DOWN**-0.5, _UP**-0.5, 1.0)
    other = kl.abs(z.imag) / root / 2
    right = z.real >= 0
    endless = kl.isinf(z.imag)
    nothing = root == 0
    real = kl.where(endless | nothing, kl.abs(z.imag), kl.where(right, root, other))
    imag = kl.copysign(kl.where(right, other, root), z.imag)
    return kl.complex(real, kl.where(endless | nothing, z.imag, imag))


@function
def exp(z: Any) -> Any:
    """``e ** z``, in two halves, since ``e ** z.real`` may overflow where the product does not."""
    x, y = z.real, z.imag
    half = kl.exp(x / 2)
    endless = kl.isinf(x) & _no_angle(y)
    size = kl.where(x > 0, kl.abs(x), 0.0)
    real = kl.where(endless, size, half * kl.cos(y) * half)
    flat = (y == 0) | (endless & (x < 0))
    return kl.complex(real, kl.where(flat, kl.copysign(0.0, y), half * kl.sin(y) * half))


@function
def expm1(z: Any) -> Any:
    """``e ** z - 1`` without cancellation near 0."""
    power = exp(z)
    half = kl.sin(z.imag / 2)
    near = kl.expm1(z.real) * kl.cos(z.imag) - 2 * half * half + 0.0  # never -0
    return kl.complex(kl.where(kl.abs(z.real) > 1, power.real - 1, near), power.imag)


@function
def log(z: Any) -> Any:
    """The natural logarithm."""
    scale = _scale(z)
    size = kl.hypot(z.real * scale, z.imag * scale)
    x = kl.maximum(kl.abs(z.real), kl.abs(z.imag))
    y = kl.minimum(kl.abs(z.real), kl.abs(z.imag))
    near = kl.log1p((x - 1) * (x + 1) + y * y) / 2
    far = kl.log(size) - _by_size(z, math.log(_DOWN), math.log(_UP), 0.0)
    real = kl.where((size > 0.7) & (size < 1.5) & (scale == 1), near, far)
    return kl.complex(real, kl.atan2(z.imag, z.real))


@function
def log1p(z: Any) -> Any:
    """``log(1 + z)`` without cancellation near 0."""
    far = log(kl.complex(1 + z.real, z.imag))
    near = kl.log1p(z.real * (2 + z.real) + z.imag * z.imag) / 2
    small = kl.maximum(kl.abs(z.real), kl.abs(z.imag)) < 0.5
    return kl.complex(kl.where(small, near, far.real), far.imag)


@function
def log2(z: Any) -> Any:
    """The logarithm to base 2."""
    return _scaled(log(z), 1.4426950408889634)


@function
def log10(z: Any) -> Any:
    """The logarithm to base 10."""
    return _scaled(log(z), 0.4342944819032518)


@function
def pow(x: Any, y: Any) -> Any:
    """``x ** y``: ``exp(y * log(x))``, and 1 where `y` is 0."""
    result = exp(y * log(x))
    return kl.complex(kl.where(y == 0, 1.0, result.real), kl.where(y == 0, 0.0, result.imag))


# -- hyperbolic and circular functions ----------------------------------------------------------


@function
def _times(small: Any, x: Any, factor: Any) -> Any:
    """A hyperbolic function of `x` times `factor`; far out the function alone may overflow."""
    half = kl.exp(kl.abs(x) / 2)
    far = kl.copysign(half / 2, small) * factor * half
    return kl.where(kl.abs(x) > _FAR, far, small * factor)


@function
def sinh(z: Any) -> Any:
    """The hyperbolic sine."""
    x, y = z.real, z.imag
    real, imag = _times(kl.sinh(x), x, kl.cos(y)), _times(kl.cosh(x), x, kl.sin(y))
    kept = _no_angle(y) & ((x == 0) | kl.isinf(x))
    return kl.complex(kl.where(kept, x, real), kl.where(y == 0, y, imag))


@function
def cosh(z: Any) -> Any:
    """The hyperbolic cosine."""
    x, y = z.real, z.imag
    real, imag = _times(kl.cosh(x), x, kl.cos(y)), _times(kl.sinh(x), x, kl.sin(y))
    real = kl.where(kl.isinf(x) & _no_angle(y), kl.abs(x), real)
    flat = (y == 0) | ((x == 0) & _no_angle(y))
    return kl.complex(real, kl.where(flat, kl.copysign(1.0, x) * kl.copysign(0.0, y), imag))


@function
def tanh(z: Any) -> Any:
    """The hyperbolic tangent; plus or minus 1 far out, where the plain formula overflows."""
    x, y = z.real, z.imag
    far = kl.abs(x) > _FAR
    sine, cosine = kl.sin(y), kl.cos(y)
    s = kl.sinh(kl.where(far, 0.0, x))
    below = cosine * cosine + s * s
    real = kl.where(far, kl.copysign(1.0, x), s * kl.sqrt(1 + s * s) / below)
    tail = kl.exp(-2 * kl.abs(x))
    imag = kl.where(far, 4 * sine * cosine * tail, sine * cosine / below)
    real = kl.where(far & _no_angle(y) & kl.isfinite(x), imag, real)
    imag = kl.where(kl.isinf(x), kl.copysign(0.0, y), kl.where(y == 0, y, imag))
    return kl.complex(kl.where(x == 0, x, real), imag)


@function
def sin(z: Any) -> Any:
    """The sine."""
    return _turned_back(sinh(_turned(z)))


@function
def cos(z: Any) -> Any:
    """The cosine."""
    return cosh(_turned(z))


@function
def tan(z: Any) -> Any:
    """The tangent."""
    return _turned_back(tanh(_turned(z)))


# -- their inverses -----------------------------------------------------------------------------


@function
def _is_large(z: Any, bound: Any) -> Any:
    """Whether a part is, even if the other one is NaN."""
    return (kl.abs(z.real) > bound) | (kl.abs(z.imag) > bound)


@function
def asinh(z: Any) -> Any:
    """The inverse hyperbolic sine."""
    x, y = kl.abs(z.real), kl.abs(z.imag)
    below = sqrt(kl.complex(1 + y, -x))
    above = sqrt(kl.complex(1 - y, x))
    near = kl.asinh(below.real * above.imag - below.imag * above.real)
    angle = kl.atan2(y, below.real * above.real - below.imag * above.imag)
    far = log(kl.complex(x, y))
    large = _is_large(z, _LARGE)
    real = kl.where(large, far.real + _LN2, near)
    imag = kl.where(y == 0, 0.0, kl.where(large, far.imag, angle))
    return kl.complex(kl.copysign(real, z.real), kl.copysign(imag, z.imag))


@function
def acos(z: Any) -> Any:
    """The arc cosine."""
    x, y = z.real, kl.abs(z.imag)
    below = sqrt(kl.complex(1 - x, -y))
    above = sqrt(kl.complex(1 + x, y))
    near = kl.asinh(above.real * below.imag - above.imag * below.real)
    far = log(kl.complex(x, y))
    large = _is_large(z, _LARGE)
    real = kl.where(large, far.imag, 2 * kl.atan2(below.real, above.real))
    imag = kl.where(large, far.real + _LN2, near)
    return kl.complex(kl.where((x == 0) & kl.isnan(y), _HALF_PI, real), kl.copysign(imag, -z.imag))


@function
def acosh(z: Any) -> Any:
    """The inverse hyperbolic cosine."""
    w = acos(z)
    return kl.complex(kl.abs(w.imag), kl.copysign(w.real, z.imag))


@function
def asin(z: Any) -> Any:
    """The arc sine."""
    return _turned_back(asinh(_turned(z)))


@function
def atanh(z: Any) -> Any:
    """The inverse hyperbolic tangent."""
    x, y = kl.abs(z.real), z.imag
    huge = _is_large(z, _HUGE)
    size, total = kl.where(huge, 0.0, x), x + kl.abs(y)
    near = kl.hypot(1 - size, kl.where(huge, 0.0, y))
    plain = kl.log1p(4 * size / near / near) / 4
    pole = (kl.log(kl.hypot(1 + size, y)) - kl.log(near)) / 2
    endless = kl.isinf(x) | kl.isinf(y)
    tail = kl.where(endless, 0.0, kl.abs(reciprocal(z).real))
    real = kl.where(huge, tail, kl.where(near < 0.01, pole, plain))
    right = kl.where(kl.isinf(y) | (total == total), _HALF_PI, total)
    angle = kl.atan2(2 * y, (1 - x) * (1 + x) - y * y) / 2
    imag = kl.where(huge, kl.copysign(right, y), angle)
    return kl.complex(kl.where(x == 0, z.real, kl.copysign(real, z.real)), imag)


@function
def atan(z: Any) -> Any:
    """The arc tangent."""
    return _turned_back(atanh(_turned(z)))


# -- parts --------------------------------------------------------------------------------------


@function
def rint(z: Any) -> Any:
    """Both parts to the nearest integer, halves to even."""
    return kl.complex(kl.rint(z.real), kl.rint(z.imag))


@function
def isfinite(z: Any) -> Any:
    """Whether both parts are."""
    return kl.isfinite(z.real) & kl.isfinite(z.imag)


@function
def isinf(z: Any) -> Any:
    """Whether a part is."""
    return kl.isinf(z.real) | kl.isinf(z.imag)


@function
def isnan(z: Any) -> Any:
    """Whether a part is."""
    return kl.isnan(z.real) | kl.isnan(z.imag)


@function
def abs(z: Any) -> Any:
    """The distance from 0."""
    return kl.hypot(z.real, z.imag)


COMPLEX: Final[dict[str, Function]] = {
    f.__name__: f
    for f in (
        abs, acos, acosh, asin, asinh, atan, atanh, cos, cosh, exp, expm1, isfinite, isinf, isnan,
        log, log10, log1p, log2, pow, reciprocal, rint, sign, sin, sinh, sqrt, square, tan, tanh,
    )
}  # fmt: skip
"""The words that take complex numbers, other than operators and parts."""

OPERATORS: Final = {"add": add, "sub": subtract, "mul": multiply, "div": divide}
"""Operators between two complex numbers."""
REAL_RIGHT: Final = {
    "add": add_real, "sub": subtract_real, "mul": multiply_real, "div": divide_by_real,
}  # fmt: skip
"""Those whose right operand is real."""
REAL_LEFT: Final = {"sub": subtract_from_real, "div": divide_real}
"""Those whose left operand is real, where the order matters."""
