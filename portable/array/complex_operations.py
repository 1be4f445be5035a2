"""What element-wise functions of complex numbers mean to a kernel.

Branch cuts and signs of zero follow W. Kahan, "Branch cuts for complex elementary functions", in
*The State of the Art in Numerical Analysis* (1987).
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "exp",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "power",
    "reciprocal",
    "round_",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
]


@function
def _turned(z: Any) -> Any:
    """``i z``."""
    return kl.complex(-z.imag, z.real)


@function
def _turned_back(z: Any) -> Any:
    """``-i z``."""
    return kl.complex(z.imag, -z.real)


@function
def exp(z: Any) -> Any:
    """``e ** z``; real for real `z`, also where the size overflows."""
    size = kl.exp(z.real)
    real = kl.where(size == 0, size, size * kl.cos(z.imag))
    imag = kl.where((z.imag == 0) | (size == 0), z.imag - z.imag, size * kl.sin(z.imag))
    return kl.complex(kl.where(z.imag == 0, size, real), imag)


@function
def expm1(z: Any) -> Any:
    """``e ** z - 1`` without cancellation near 0."""
    half = kl.sin(z.imag / 2)
    real = kl.expm1(z.real) * kl.cos(z.imag) - 2 * half * half
    imag = kl.exp(z.real) * kl.sin(z.imag)
    flat = z.imag == 0
    return kl.complex(kl.where(flat, kl.expm1(z.real), real), kl.where(flat, z.imag, imag))


@function
def log(z: Any) -> Any:
    """The natural logarithm, exact to rounding near the unit circle too."""
    size = kl.hypot(z.real, z.imag)
    x = kl.maximum(kl.abs(z.real), kl.abs(z.imag))
    y = kl.minimum(kl.abs(z.real), kl.abs(z.imag))
    near = kl.log1p((x - 1) * (x + 1) + y * y) / 2
    real = kl.where((size > 0.7) & (size < 1.5), near, kl.log(size))
    return kl.complex(real, kl.atan2(z.imag, z.real))


@function
def log1p(z: Any) -> Any:
    """``log(1 + z)`` without cancellation near 0."""
    near = kl.log1p(z.real * (2 + z.real) + z.imag * z.imag) / 2
    far = kl.log(kl.hypot(1 + z.real, z.imag))
    small = kl.maximum(kl.abs(z.real), kl.abs(z.imag)) < 0.5
    return kl.complex(kl.where(small, near, far), kl.atan2(z.imag, 1 + z.real))


@function
def log2(z: Any) -> Any:
    """The logarithm to base 2."""
    w = log(z)
    return kl.complex(w.real * 1.4426950408889634, w.imag * 1.4426950408889634)


@function
def log10(z: Any) -> Any:
    """The logarithm to base 10."""
    w = log(z)
    return kl.complex(w.real * 0.4342944819032518, w.imag * 0.4342944819032518)


@function
def sqrt(z: Any) -> Any:
    """The square root with a real part that is not negative."""
    size = kl.hypot(z.real / 2, z.imag / 2)
    t = kl.sqrt(size + kl.abs(z.real) / 2)
    other = kl.abs(z.imag) / (2 * t)
    right = z.real >= 0
    real = kl.where(right, t, other)
    imag = kl.copysign(kl.where(right, other, t), z.imag)
    nothing = (z.real == 0) & (z.imag == 0)
    tall = kl.isinf(z.imag)
    real = kl.where(nothing, kl.abs(z.real), kl.where(tall, kl.abs(z.imag), real))
    imag = kl.where(nothing | tall, z.imag, imag)
    return kl.complex(real, imag)


@function
def square(z: Any) -> Any:
    """``z * z``."""
    return kl.complex((z.real - z.imag) * (z.real + z.imag), 2 * z.real * z.imag)


@function
def reciprocal(z: Any) -> Any:
    """``1 / z``."""
    return kl.complex(z.real - z.real + 1, z.real - z.real) / z


@function
def power(x: Any, y: Any) -> Any:
    """``x ** y``, the principal value."""
    logarithm = log(x)
    product = logarithm * y
    result = exp(product)
    nothing = (x.real == 0) & (x.imag == 0)
    none = (y.real == 0) & (y.imag == 0)
    real = kl.where(none, 1.0, kl.where(nothing, 0.0, result.real))
    imag = kl.where(none | nothing, 0.0, result.imag)
    return kl.complex(real, imag)


@function
def sign(z: Any) -> Any:
    """``z / abs(z)``, and 0 of 0."""
    size = kl.hypot(z.real, z.imag)
    divisor = kl.where(size == 0, 1.0, size)
    return kl.complex(z.real / divisor, z.imag / divisor)


@function
def round_(z: Any) -> Any:
    """Both parts to the nearest integer, halves to even."""
    return kl.complex(kl.rint(z.real), kl.rint(z.imag))


@function
def sin(z: Any) -> Any:
    """The sine."""
    return kl.complex(kl.sin(z.real) * kl.cosh(z.imag), kl.cos(z.real) * kl.sinh(z.imag))


@function
def cos(z: Any) -> Any:
    """The cosine."""
    return kl.complex(kl.cos(z.real) * kl.cosh(z.imag), -(kl.sin(z.real) * kl.sinh(z.imag)))


@function
def tan(z: Any) -> Any:
    """The tangent; plus or minus i far from the real axis, where the plain formula overflows."""
    high = kl.abs(z.imag) > 20
    y = kl.where(high, 0.0, z.imag)
    below = kl.cos(z.real) * kl.cos(z.real) + kl.sinh(y) * kl.sinh(y)
    tail = kl.exp(-2 * kl.abs(z.imag))
    real = kl.where(high, 2 * kl.sin(2 * z.real) * tail, kl.sin(z.real) * kl.cos(z.real) / below)
    imag = kl.where(high, kl.copysign(y + 1, z.imag), kl.sinh(y) * kl.cosh(y) / below)
    return kl.complex(real, imag)


@function
def sinh(z: Any) -> Any:
    """The hyperbolic sine."""
    return kl.complex(kl.sinh(z.real) * kl.cos(z.imag), kl.cosh(z.real) * kl.sin(z.imag))


@function
def cosh(z: Any) -> Any:
    """The hyperbolic cosine."""
    return kl.complex(kl.cosh(z.real) * kl.cos(z.imag), kl.sinh(z.real) * kl.sin(z.imag))


@function
def tanh(z: Any) -> Any:
    """The hyperbolic tangent."""
    return _turned_back(tan(_turned(z)))


@function
def asin(z: Any) -> Any:
    """The arc sine."""
    below = sqrt(kl.complex(1 - z.real, -z.imag))
    above = sqrt(kl.complex(1 + z.real, z.imag))
    real = kl.atan2(z.real, below.real * above.real - below.imag * above.imag)
    return kl.complex(real, kl.asinh(below.real * above.imag - below.imag * above.real))


@function
def acos(z: Any) -> Any:
    """The arc cosine."""
    below = sqrt(kl.complex(1 - z.real, -z.imag))
    above = sqrt(kl.complex(1 + z.real, z.imag))
    real = 2 * kl.atan2(below.real, above.real)
    return kl.complex(real, kl.asinh(above.real * below.imag - above.imag * below.real))


@function
def atan(z: Any) -> Any:
    """The arc tangent."""
    return _turned_back(atanh(_turned(z)))


@function
def asinh(z: Any) -> Any:
    """The inverse hyperbolic sine."""
    return _turned_back(asin(_turned(z)))


@function
def acosh(z: Any) -> Any:
    """The inverse hyperbolic cosine."""
    below = sqrt(kl.complex(z.real - 1, z.imag))
    above = sqrt(kl.complex(z.real + 1, z.imag))
    real = kl.asinh(below.real * above.real + below.imag * above.imag)
    return kl.complex(real, 2 * kl.atan2(below.imag, above.real))


@function
def atanh(z: Any) -> Any:
    """The inverse hyperbolic tangent."""
    x, y = z.real, z.imag
    gap = (1 - kl.abs(x)) * (1 - kl.abs(x)) + y * y
    real = kl.copysign(kl.log1p(4 * kl.abs(x) / gap) / 4, x)
    imag = kl.atan2(2 * y, (1 - x) * (1 + x) - y * y) / 2
    return kl.complex(real, imag)
