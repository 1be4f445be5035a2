"""What hidden layers apply to each number, and its slope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from portable import lang as kl
from portable.lang.function import Function, function
from portable.lang.library.elementary.powers import horner
from portable.linalg.products.kernels import relu

# The normal distribution's share below a number, of which GELU is made.
#
# Polynomials through Chebyshev's nodes, worked out with 60 digits: ``erf(z) / z`` in powers of
# ``z * z`` from 0 to 1, and ``exp(z * z) * erfc(z)`` in powers of ``(z - 3) / (z + 3)`` from there
# to 6 (double precision) and 4 (single), within 5e-16 and 2e-9 of these functions.

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
def share_below(x: kl.Scalar) -> Any:
    """The probability that a normal number is below `x`; f32 or f64, or vectors of these."""
    if x.dtype is kl.f64:
        return share_by(x, _ERF_64, _TAIL_64, 6.0)
    return share_by(x, _ERF_32, _TAIL_32, 4.0)


@function
def share_by(x: kl.Scalar, ERF: Any, TAIL: Any, END: Any) -> Any:
    """The same by these polynomials."""
    z = kl.minimum(kl.abs(x) * _ROOT_HALF, x * 0 + END)
    near = 1 - z * horner(z * z, ERF)
    far = kl.exp(-z * z) * horner((z - 3) / (z + 3), TAIL)
    half = kl.where(z < 1, near, far) * 0.5
    return kl.where(x < 0, half, 1 - half)


@function
def density(x: kl.Scalar) -> Any:
    """The density of the normal distribution."""
    return kl.exp(x * x * -0.5) * _DENSITY_AT_0


@function
def relu_slope(y: kl.Scalar) -> Any:
    """1 where `y` is positive, else 0."""
    return kl.where(y > 0, y * 0 + 1, y * 0)


@function
def tanh(x: kl.Scalar) -> Any:
    """The hyperbolic tangent."""
    return kl.tanh(x)


@function
def tanh_slope(y: kl.Scalar) -> Any:
    """Its slope where its value is `y`."""
    return 1 - y * y


@function
def sigmoid(x: kl.Scalar) -> Any:
    """``1 / (1 + exp(-x))``."""
    return 1 / (1 + kl.exp(-x))


@function
def sigmoid_slope(y: kl.Scalar) -> Any:
    """Its slope where its value is `y`."""
    return y * (1 - y)


@function
def relu6(x: kl.Scalar) -> Any:
    """``min(max(x, 0), 6)``; NaN stays."""
    return kl.where(x < 0, x * 0, kl.where(x > 6, x * 0 + 6, x))


@function
def relu6_slope(y: kl.Scalar) -> Any:
    """1 where `y` is between the ends, else 0."""
    return kl.where((y > 0) & (y < 6), y * 0 + 1, y * 0)


@function
def hardsigmoid(x: kl.Scalar) -> Any:
    """``relu6(x + 3) / 6``."""
    return relu6(x + 3) / 6


@function
def hardsigmoid_slope(y: kl.Scalar) -> Any:
    """A sixth where `y` is between 0 and 1, else 0."""
    return relu6_slope(y * 6) / 6


@function
def hardswish(x: kl.Scalar) -> Any:
    """``x * relu6(x + 3) / 6``."""
    return x * hardsigmoid(x)


@function
def hardswish_slope(x: kl.Scalar) -> Any:
    """Its slope at `x`."""
    inside = (x > -3) & (x < 3)
    return kl.where(inside, x / 3 + 0.5, kl.where(x < 0, x * 0, x * 0 + 1))


@function
def silu(x: kl.Scalar) -> Any:
    """``x / (1 + exp(-x))``."""
    return x * sigmoid(x)


@function
def silu_slope(x: kl.Scalar) -> Any:
    """Its slope at `x`."""
    share = sigmoid(x)
    return share * (1 + x * (1 - share))


@function
def gelu(x: kl.Scalar) -> Any:
    """``x`` times the normal distribution's share below it."""
    return x * share_below(x)


@function
def gelu_slope(x: kl.Scalar) -> Any:
    """Its slope at `x`."""
    return share_below(x) + x * density(x)


@dataclass(frozen=True, slots=True)
class Activation:
    """An activation.

    Attributes
    ----------
    function : Function
        Of a number, or of each lane of a vector.
    slope : Function
        The derivative, as a function of the activation's value, or of what it is given.
    by_value : bool
        Whether of its value, so that what went in need not be kept.
    """

    function: Function
    slope: Function
    by_value: bool = True


BY_VALUE: Final = {
    "relu": Activation(relu, relu_slope),
    "tanh": Activation(tanh, tanh_slope),
    "sigmoid": Activation(sigmoid, sigmoid_slope),
    "relu6": Activation(relu6, relu6_slope),
    "hardsigmoid": Activation(hardsigmoid, hardsigmoid_slope),
}
"""By name, those whose slopes follow from their values."""

ACTIVATIONS: Final = {
    **BY_VALUE,
    "hardswish": Activation(hardswish, hardswish_slope, by_value=False),
    "silu": Activation(silu, silu_slope, by_value=False),
    "gelu": Activation(gelu, gelu_slope, by_value=False),
}
"""All by name."""
