"""The element-wise functions of the language: names, types, accuracy, and what NumPy calls them.

The simulator evaluates `Function.numpy` in the operand's type; emitters look up their spelling by
name. Every function keeps its operand's type unless `result` says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np


@dataclass(frozen=True, slots=True)
class Function:
    """One element-wise function.

    Attributes
    ----------
    name : str
        The word that users write (``kl.exp``) and the key of `expressions.Call`.
    arity : int
        Number of operands, all of one type.
    kinds : str
        Kinds of register types taken: ``"f"`` floating, ``"i"`` signed, ``"u"`` unsigned.
    ulp32, ulp64 : float
        Greatest error in units in the last place, single and double precision, for normal results;
        OpenCL 3.0's bounds of the full profile (section 7.4), which CUDA's functions meet. 0 means
        correctly rounded or exact.
    numpy : callable
        The meaning, on NumPy arrays of the operand's type.
    result : {"same", "bool"}
        Type of the result.
    complex_ulp : float or None
        Greatest error of complex results in units in the last place of their larger part, on a
        device whose real functions keep to the bounds above; for ``pow`` times
        ``1 + abs(y * log(x))``. None where complex numbers are refused.
    """

    name: str
    arity: int
    kinds: str
    ulp32: float
    ulp64: float
    numpy: Callable[..., Any]
    result: Literal["same", "bool"] = "same"
    complex_ulp: float | None = None


def _popcount(x: Any) -> Any:
    unsigned = x.view(x.dtype.str.replace("i", "u"))
    return np.bitwise_count(unsigned).astype(x.dtype)


def _clz(x: Any) -> Any:
    bits = x.dtype.itemsize * 8
    u = x.astype(x.dtype.str.replace("i", "u"), copy=True)
    count = np.full(u.shape, bits, u.dtype)
    for shift in (32, 16, 8, 4, 2, 1):
        if shift < bits:
            high = u >> u.dtype.type(shift)
            some = high != 0
            count = np.where(some, count - u.dtype.type(shift), count)
            u = np.where(some, high, u)
    return (count - u).astype(x.dtype)


def _fma(x: Any, y: Any, z: Any) -> Any:
    """Correctly rounded: by rounding to odd in f64, for f64 itself of the product's two parts."""
    if x.dtype == np.float64:
        return _fma64(*np.broadcast_arrays(x, y, z))
    product = x.astype(np.float64) * y.astype(np.float64)
    if x.dtype == np.float32:
        total = product + z
        if not np.count_nonzero(_perhaps_rounded_twice(total)):
            return total.astype(np.float32)
    return _added_to_odd(product, z.astype(np.float64)).astype(x.dtype)


_NORMAL: Final = 2.0**-126


def _perhaps_rounded_twice(total: Any) -> Any:
    """Which rounded sums lie halfway between numbers of f32, so that the exact ones may not.

    Numbers of f32 below the normal ones lie further apart than 29 bits tell; 0 is exact.
    """
    small = (np.abs(total) < _NORMAL) & (total != 0)
    return small | ((total.view(np.int64) & (2**29 - 1)) == 2**28)


def _two_sum(x: Any, y: Any) -> tuple[Any, Any]:
    """A sum, and what was lost of it (Knuth)."""
    total = x + y
    virtual = total - x
    return total, (x - (total - virtual)) + (y - virtual)


def _added_to_odd(x: Any, y: Any) -> Any:
    """A sum whose last bit says whether anything was lost, so that it may be rounded once more."""
    total, error = _two_sum(x, y)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & np.isfinite(error) & (error != 0) & ((bits & 1) == 0)
    toward = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(inexact, bits + toward, bits).view(np.float64)


_SPLIT: Final = 2.0**27 + 1
_LARGE: Final = 2.0**500
_SMALL: Final = 2.0**-900


def _fma64(x: Any, y: Any, z: Any) -> Any:
    """By error-free transforms, and exact fractions where these would overflow or underflow.

    Boldo and Melquiond, Emulation of a FMA and correctly rounded sums (IEEE Trans. Computers 57,
    2008); the product's parts are Dekker's.
    """
    x, y, z = (np.asarray(number) for number in (x, y, z))  # constants come as NumPy's scalars
    product = x * y
    out = np.asarray(product + z)
    asked = np.isfinite(x) & np.isfinite(y) & np.isfinite(z) & (x != 0) & (y != 0)
    if not asked.any():
        return out
    largest = np.maximum(np.maximum(np.abs(x), np.abs(y)), np.abs(z))
    plain = asked & (largest < _LARGE) & (np.abs(product) > _SMALL)
    if plain.any():
        out[plain] = _fma_by_parts(x[plain], y[plain], z[plain])
    for i in np.flatnonzero(asked & ~plain).tolist():
        out.flat[i] = _fma_by_fractions(float(x.flat[i]), float(y.flat[i]), float(z.flat[i]))
    return out


def _fma_by_parts(x: Any, y: Any, z: Any) -> Any:
    product = x * y
    high_x, high_y = (wide - (wide - part) for part, wide in ((x, x * _SPLIT), (y, y * _SPLIT)))
    low_x, low_y = x - high_x, y - high_y
    lost = ((high_x * high_y - product) + high_x * low_y + low_x * high_y) + low_x * low_y
    addend, further = _two_sum(z, lost)
    total, rest = _two_sum(product, addend)
    return total + _added_to_odd(further, rest)


def _fma_by_fractions(x: float, y: float, z: float) -> float:
    from fractions import Fraction

    exact = Fraction(x) * Fraction(y) + Fraction(z)
    try:
        return float(exact) if exact else x * y + z
    except OverflowError:
        return float(np.inf) if exact > 0 else -float(np.inf)


def _mulhi(x: Any, y: Any) -> Any:
    bits = x.dtype.itemsize * 8
    if bits == 32:
        wide = np.int64 if x.dtype.kind == "i" else np.uint64
        return (x.astype(wide) * y.astype(wide) >> wide(32)).astype(x.dtype)
    products = (x.astype(object) * y.astype(object)) // (1 << bits)
    return products.astype(x.dtype)


_LIST: Final = (
    Function("abs", 1, "fiu", 0, 0, np.abs, complex_ulp=4),
    Function("acos", 1, "f", 4, 4, np.arccos, complex_ulp=16),
    Function("acosh", 1, "f", 4, 4, np.arccosh, complex_ulp=16),
    Function("asin", 1, "f", 4, 4, np.arcsin, complex_ulp=16),
    Function("asinh", 1, "f", 4, 4, np.arcsinh, complex_ulp=16),
    Function("atan", 1, "f", 5, 5, np.arctan, complex_ulp=12),
    Function("atan2", 2, "f", 6, 6, np.arctan2),
    Function("atanh", 1, "f", 5, 5, np.arctanh, complex_ulp=12),
    Function("cbrt", 1, "f", 2, 2, np.cbrt),
    Function("ceil", 1, "f", 0, 0, np.ceil),
    Function("clz", 1, "iu", 0, 0, _clz),
    Function("copysign", 2, "f", 0, 0, np.copysign),
    Function("cos", 1, "f", 4, 4, np.cos, complex_ulp=12),
    Function("cosh", 1, "f", 4, 4, np.cosh, complex_ulp=12),
    Function("exp", 1, "f", 3, 3, np.exp, complex_ulp=12),
    Function("exp2", 1, "f", 3, 3, np.exp2),
    Function("expm1", 1, "f", 3, 3, np.expm1, complex_ulp=12),
    Function("floor", 1, "f", 0, 0, np.floor),
    Function("fma", 3, "f", 0, 0, _fma),
    Function("fmod", 2, "f", 0, 0, np.fmod),
    Function("hypot", 2, "f", 4, 4, np.hypot),
    Function("isfinite", 1, "f", 0, 0, np.isfinite, "bool", 0),
    Function("isinf", 1, "f", 0, 0, np.isinf, "bool", 0),
    Function("isnan", 1, "f", 0, 0, np.isnan, "bool", 0),
    Function("log", 1, "f", 3, 3, np.log, complex_ulp=8),
    Function("log10", 1, "f", 3, 3, np.log10, complex_ulp=8),
    Function("log1p", 1, "f", 2, 2, np.log1p, complex_ulp=8),
    Function("log2", 1, "f", 3, 3, np.log2, complex_ulp=8),
    Function("mulhi", 2, "iu", 0, 0, _mulhi),
    Function("nextafter", 2, "f", 0, 0, np.nextafter),
    Function("popcount", 1, "iu", 0, 0, _popcount),
    Function("pow", 2, "f", 16, 16, np.power, complex_ulp=16),
    Function("rint", 1, "f", 0, 0, np.rint, complex_ulp=0),
    Function("rsqrt", 1, "f", 2, 2, lambda x: (1 / np.sqrt(x)).astype(x.dtype)),
    Function("signbit", 1, "f", 0, 0, np.signbit, "bool"),
    Function("sin", 1, "f", 4, 4, np.sin, complex_ulp=12),
    Function("sinh", 1, "f", 4, 4, np.sinh, complex_ulp=12),
    Function("sqrt", 1, "f", 3, 0, np.sqrt, complex_ulp=8),
    Function("tan", 1, "f", 5, 5, np.tan, complex_ulp=16),
    Function("tanh", 1, "f", 5, 5, np.tanh, complex_ulp=16),
    Function("trunc", 1, "f", 0, 0, np.trunc),
)


FUNCTIONS: Final[dict[str, Function]] = {f.name: f for f in _LIST}
"""Every element-wise function by name.

Integer ``abs`` wraps for the most negative value; ``mulhi`` is the upper half of the product;
``rint`` rounds halves to even. ``sign``, ``square``, ``reciprocal``, ``logaddexp``, ``round``,
``remainder``, ``floor_divide`` and the comparisons are composed of others by the front end.
"""
