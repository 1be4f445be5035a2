"""The normal distribution's share below a number, of which GELU is made.

Polynomials through Chebyshev's nodes, worked out with 60 digits: ``erf(z) / z`` in powers of
``z * z`` from 0 to 1, and ``exp(z * z) * erfc(z)`` in powers of ``(z - 3) / (z + 3)`` from there
to 6 (double precision) and 4 (single), within 5e-16 and 2e-9 of these functions.
"""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function

__all__ = ["density", "share_below"]

_ROOT_HALF: Final = 0.7071067811865476
_DENSITY_AT_0: Final = 0.3989422804014327

_ERF_64: Final = (
    1.1283791670955121,
    -0.376126389031744,
    0.11283791670580423,
    -0.026866170586496874,
    0.005223977154105304,
    -0.0008548304871782741,
    0.00012054681918310599,
    -1.4913300906316395e-05,
    1.631035651387174e-06,
    -1.5188281247335167e-07,
    9.428596956834164e-09,
)
_ERF_32: Final = (
    1.1283791658483509,
    -0.37612626666720334,
    0.11283594715160218,
    -0.026854212010626412,
    0.005189087423433974,
    -0.000801686428716587,
    7.875875062685488e-05,
)
_TAIL_64: Final = (
    0.17900115118138996,
    -0.32623356004303716,
    0.24560380171233195,
    -0.15011593650078744,
    0.07166583719774874,
    -0.024392499318273194,
    0.004269136347508256,
    0.0007077464443901538,
    -0.0005970623517093284,
    4.525472635483354e-05,
    6.406182073530546e-05,
    -1.284889451252353e-05,
    -8.008021319412685e-06,
    2.023603179641757e-06,
    1.2801900862962662e-06,
)
_TAIL_32: Final = (
    0.17900115118131857,
    -0.3262335449133817,
    0.24560382210495477,
    -0.15011811326231994,
    0.07165749817456664,
    -0.024337653526757347,
    0.004665094527335907,
    0.0015493261768614456,
)


@function
def polynomial(x: Any, COEFFICIENTS: Any) -> Any:
    """By Horner's rule, the constant first."""
    value = x * 0 + COEFFICIENTS[-1]
    for i in kl.static_range(1, len(COEFFICIENTS)):
        value = kl.fma(value, x, COEFFICIENTS[len(COEFFICIENTS) - 1 - i])
    return value


@function
def share_below(x: Any) -> Any:
    """The probability that a normal number is below `x`; f32 or f64, or vectors of these."""
    if x.dtype is kl.f64:
        return share_by(x, _ERF_64, _TAIL_64, 6.0)
    return share_by(x, _ERF_32, _TAIL_32, 4.0)


@function
def share_by(x: Any, ERF: Any, TAIL: Any, END: Any) -> Any:
    """The same by these polynomials."""
    z = kl.minimum(kl.abs(x) * _ROOT_HALF, x * 0 + END)
    near = 1 - z * polynomial(z * z, ERF)
    far = kl.exp(-z * z) * polynomial((z - 3) / (z + 3), TAIL)
    half = kl.where(z < 1, near, far) * 0.5
    return kl.where(x < 0, half, 1 - half)


@function
def density(x: Any) -> Any:
    """The density of the normal distribution."""
    return kl.exp(x * x * -0.5) * _DENSITY_AT_0
