"""Elementary functions but for those of angles: roots, exponentials, logarithms, powers."""

from __future__ import annotations

import math
from typing import Any, Final

from portable.dtypes import float32, float64, int32, int64
from portable.lang import words as kl
from portable.lang.function import function
from portable.lang.library.elementary import coefficients as c

# What the elementary functions share: bits of numbers, powers of two, polynomials, exact sums.
#
# Every sum and product here is rounded by itself; `kl.fma` stands where one rounding is meant.


@function
def by_type(x: Any, single: Any, double: Any) -> Any:
    """One of two constants: that for the type of `x`."""
    return single if x.dtype == float32 else double


@function
def bits(x: Any) -> Any:
    """The bits of a float as a signed integer."""
    return kl.bitcast(x, by_type(x, int32, int64))


@function
def from_bits(n: Any) -> Any:
    """The float of some bits."""
    return kl.bitcast(n, float32 if n.dtype == int32 else float64)


@function
def some(mask: Any) -> Any:
    """Whether a bool holds, or one lane of a vector of them."""
    return mask if mask.lanes == 1 else kl.count(mask) > 0


@function
def horner(x: Any, coefficients: Any) -> Any:
    """A polynomial, its coefficients given from the lowest power on."""
    value = coefficients[-1]
    for i in kl.static_range(len(coefficients) - 1):
        value = kl.fma(x, value, coefficients[len(coefficients) - 2 - i])
    return value


@function
def in_pairs(x: Any, coefficients: Any) -> Any:
    """As `horner`, of an even number of them, in half as many steps that wait for each other."""
    first = range(0, len(coefficients), 2)
    return horner(x * x, [kl.fma(x, coefficients[i + 1], coefficients[i]) for i in first])


# -- powers of two ------------------------------------------------------------------------------


@function
def power_of_two(n: Any) -> Any:
    """``2 ** n``, a normal number."""
    return from_bits((n + 127) << 23 if n.dtype == int32 else (n + 1023) << 52)


@function
def scaled(x: Any, n: Any) -> Any:
    """``x * 2 ** n``, rounded once, for `x` near 1: beyond the normal numbers in two steps."""
    half = n >> 1
    return x * power_of_two(half) * power_of_two(n - half)


@function
def nearest_multiple(x: Any, factor: Any) -> Any:
    """The whole number nearest to ``x * factor``, as a float and as an integer.

    A number is added that has no digits behind the point, and taken away again; the product may
    have 22 bits before the point, in double precision 51.
    """
    magic = by_type(x, 1.5 * 2.0**23, 1.5 * 2.0**52)
    shifted = kl.fma(x, factor, magic)
    return shifted - magic, bits(shifted) - by_type(x, 0x4B400000, 0x4338000000000000)


@function
def nearest(x: Any) -> Any:
    """The whole number nearest to `x`, as a float and as an integer; as `nearest_multiple`."""
    magic = by_type(x, 1.5 * 2.0**23, 1.5 * 2.0**52)
    shifted = x + magic
    return shifted - magic, bits(shifted) - by_type(x, 0x4B400000, 0x4338000000000000)


@function
def whole_number(n: Any) -> Any:
    """An integer of less than 22 (51) bits as a float, by the same means."""
    magic = from_bits(n + (0x4B400000 if n.dtype == int32 else 0x4338000000000000))
    return magic - (1.5 * 2.0**23 if n.dtype == int32 else 1.5 * 2.0**52)


_ROOT: Final = (0x3F3504F3, 0x3FE6A09E667F3BCD)
"""The bits of sqrt(1 / 2) in single and in double precision."""
_ONE: Final = (0x3F800000, 0x3FF0000000000000)


@function
def split(x: Any, least: Any = _ROOT) -> Any:
    """`m` and an integer `n` such that ``x = m * 2 ** n``, `x` positive and finite.

    `m` is from the number with the bits `least` to twice that; of another `x` something is found.
    """
    small = x < by_type(x, 2.0**-126, 2.0**-1022)
    less = kl.where(small, 64, 0)
    if some(small):
        x = kl.where(small, x * 2.0**64, x)
    b = bits(x)
    if x.dtype == float32:
        n = (b - least[0]) >> 23
        m = from_bits(b - (n << 23))
    else:
        n = (b - least[1]) >> 52
        m = from_bits(b - (n << 52))
    return m, n - less


# -- sums and products without error (T. J. Dekker, D. E. Knuth) --------------------------------


@function
def total(x: Any, y: Any) -> Any:
    """``x + y`` and what rounding it left out."""
    s = x + y
    virtual = s - x
    return s, (x - (s - virtual)) + (y - virtual)


@function
def quick_sum(x: Any, y: Any) -> Any:
    """As `total`, where `x` is 0 or not the smaller one."""
    s = x + y
    return s, y - (s - x)


@function
def product(x: Any, y: Any) -> Any:
    """``x * y`` and what rounding it left out."""
    p = x * y
    return p, kl.fma(x, y, -p)


# The remainder of a division, and a number's neighbour.


@function
def fmod(x: Any, y: Any) -> Any:
    """What division toward zero leaves, exactly: long division, many bits of the quotient a step.

    A quotient that was rounded is at most one too large, and fma gives what it leaves exactly.
    """
    a, b = kl.abs(x), kl.abs(y)
    usual = (a < math.inf) & (b > 0) & (b < math.inf) & (a >= b)
    m, n = split(kl.where(usual, a, 1.0), _ONE)
    divisor, exponent = split(kl.where(usual, b, 1.0), _ONE)
    left, digits = kl.where(m >= divisor, m - divisor, m), n - exponent
    most = by_type(x, 22, 51)
    while some(digits > 0):
        step = kl.where(digits > most, most, digits)
        raised = left * power_of_two(step)
        left = kl.fma(-kl.trunc(raised / divisor), divisor, raised)
        left = kl.where(left < 0, left + divisor, left)
        digits = digits - step
    kept = (a < b) & (b == b)
    value = kl.where(usual, scaled(left, exponent), kl.where(kept, a, math.nan))
    return kl.copysign(value, x)


@function
def nextafter(x: Any, y: Any) -> Any:
    """The neighbour of `x` on the side of `y`."""
    b = bits(x)
    outward = (x < y) == (x > 0)
    moved = from_bits(kl.where(outward, b + 1, b - 1))
    least = kl.copysign(by_type(x, 2.0**-149, 2.0**-1074), y)
    value = kl.where(x == 0, least, moved)
    return kl.where((x != x) | (y != y), math.nan, kl.where(x == y, y, value))


# Roots, and the length of a vector of two.


@function
def rsqrt(x: Any) -> Any:
    """``1 / sqrt(x)``."""
    return 1 / kl.sqrt(x)


@function
def _nearer(root: Any, x: Any) -> Any:
    """E. Halley's step to the cube root: three times as many digits are right."""
    cube = root * root * root
    return root * ((cube + 2 * x) / (2 * cube + x))


@function
def cbrt(x: Any) -> Any:
    """The cube root: a third of the exponent's bits, then Halley's steps; the last one finer."""
    size = kl.abs(x)
    small, large = size < by_type(x, 2.0**-126, 2.0**-1022), size > 2.0**120
    up, down = kl.where(small, 2.0**60, 1.0), kl.where(large, 2.0**-30, 1.0)
    y = size * up * down
    if x.dtype == float32:
        guess = _nearer(from_bits(kl.mulhi(bits(y), 0x55555556) + 0x2A5119F2), y)
        value = kl.cast(_nearer(kl.cast(guess, float64), kl.cast(y, float64)), float32)
    else:
        third = kl.mulhi(kl.cast(bits(y) >> 32, int32), 0x55555556) + 0x2A9F7893
        guess = _nearer(_nearer(from_bits(kl.cast(third, int64) << 32), y), y)
        square = guess * guess
        left = kl.fma(square, guess, -y) + kl.fma(guess, guess, -square) * guess
        value = guess - left / (3 * square)
    value = value * kl.where(small, 2.0**-20, 1.0) * kl.where(large, 2.0**10, 1.0)
    itself = (x == 0) | (size == math.inf) | (x != x)
    return kl.where(itself, x, kl.copysign(value, x))


@function
def hypot(x: Any, y: Any) -> Any:
    """``sqrt(x * x + y * y)``; infinite where one of them is."""
    a, b = kl.abs(x), kl.abs(y)
    if x.dtype == float32:
        p, q = kl.cast(a, float64), kl.cast(b, float64)
        value = kl.cast(kl.sqrt(kl.fma(p, p, q * q)), float32)
    else:
        large, small = (a > 2.0**500) | (b > 2.0**500), (a < 2.0**-400) & (b < 2.0**-400)
        scale = kl.where(large, 2.0**-600, kl.where(small, 2.0**600, 1.0))
        back = kl.where(large, 2.0**600, kl.where(small, 2.0**-600, 1.0))
        p, q = kl.where(a > b, a, b) * scale, kl.where(a > b, b, a) * scale
        value = kl.sqrt(kl.fma(p, p, q * q)) * back
    return kl.where((a == math.inf) | (b == math.inf), math.inf, value)


# Exponentials: reduction by multiples of log(2) in two parts, as W. J. Cody and W. Waite do.
#
# *Software Manual for the Elementary Functions* (1980). What is left lies within log(2) / 2 of 0,
# where ``exp(r) - 1 = r + r ** 2 * P(r)`` with a minimax polynomial. NaN passes through, and what
# overflows or vanishes does so by itself, since arguments are held to where the result is settled.


@function
def held(x: Any, low: Any, high: Any) -> Any:
    """`x` between two bounds; NaN stays."""
    return kl.where(x > high, high, kl.where(x < low, low, x))


@function
def expm1_near_0(r: Any) -> Any:
    """``exp(r) - 1`` for `r` up to log(2) / 2."""
    return kl.fma(r * r, horner(r, by_type(r, c.EXPM1_32, c.EXPM1_64)), r)


@function
def reduced(x: Any) -> Any:
    """`p` and an integer `n` such that ``exp(x) = (1 + p) * 2 ** n``."""
    ln2 = by_type(x, c.LN2_32, c.LN2_64)
    k, n = nearest_multiple(x, c.LOG2_E_64[0])
    r = kl.fma(-k, ln2[1], kl.fma(-k, ln2[0], x))
    return expm1_near_0(r), n


@function
def exp(x: Any) -> Any:
    """E to the power of `x`."""
    p, n = reduced(held(x, by_type(x, -104.0, -746.0), by_type(x, 89.0, 710.0)))
    return scaled(1 + p, n)


@function
def exp2(x: Any) -> Any:
    """2 to the power of `x`."""
    x = held(x, by_type(x, -151.0, -1076.0), by_type(x, 129.0, 1025.0))
    k, n = nearest(x)
    return scaled(1 + expm1_near_0((x - k) * c.LN2_64[0]), n)


@function
def expm1(x: Any) -> Any:
    """``exp(x) - 1``: ``2 ** n * p + (2 ** n - 1)``, a quarter of it against early overflow."""
    p, n = reduced(held(x, by_type(x, -30.0, -60.0), by_type(x, 89.0, 710.0)))
    scale = power_of_two(n - 2)
    far = kl.fma(p, scale, scale - 0.25) * 4
    return kl.where(x == 0, x, kl.where(n == 0, p, far))


# Logarithms: ``x = m * 2 ** n`` with `m` from sqrt(1 / 2) to sqrt(2).
#
# In single precision ``log1p(f) = f + f ** 2 * P(f)``; in double precision by the quotient ``s = f
# / (2 + f)``, whose odd series ``log1p(f) = 2 * s + s ** 3 * P(s ** 2)`` converges faster (J.-M.
# Muller et al., *Handbook of Floating-Point Arithmetic*, 2018, chapter 10). `n` is multiplied by
# log(2) in two parts.


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


# Powers: ``2 ** (y * log2(x))`` with the logarithm to more digits than the result has.
#
# In single precision the logarithm is a polynomial in double precision, but for its highest powers;
# in double precision it is a sum of two numbers, by T. J. Dekker's products and sums (1971), good
# for 65 bits. Zeros and infinities have infinite logarithms and come out right by themselves; the
# rest of C99's special cases (Annex F) are chosen at the end.


@function
def pow(x: Any, y: Any) -> Any:
    """`x` to the power of `y`."""
    size = kl.abs(x)
    value = _magnitude32(size, y) if x.dtype == float32 else _magnitude64(size, y)
    below = bits(x) < 0
    if some(below):
        whole = kl.rint(y) == y
        odd = whole & (kl.rint(0.5 * y) != 0.5 * y)
        value = kl.where(odd, kl.copysign(value, x), value)
        value = kl.where((x < 0) & ~whole & (size != math.inf), math.nan, value)
        value = kl.where((x == -1) & (kl.abs(y) == math.inf), 1.0, value)
    return kl.where((x == 1) | (y == 0), 1.0, value)


_LOG2_LOW: Final = c.LOG2_64[:6]
_LOG2_HIGH: Final = c.LOG2_64[6:]


@function
def _magnitude32(size: Any, y: Any) -> Any:
    """In few steps that wait for each other: these, not operations, are what it takes."""
    m, n = split(size)
    f = m - 1
    twos = kl.where(size < math.inf, whole_number(n), size)
    twos = kl.where(size == 0, -math.inf, twos)
    high = kl.cast(in_pairs(f, _LOG2_HIGH), float64)
    wide = kl.cast(f, float64)
    square = wide * wide
    ratio = kl.fma(square * square * square, high, in_pairs(wide, _LOG2_LOW))
    power = kl.cast(y, float64) * kl.fma(wide, ratio, kl.cast(twos, float64))
    k, whole = nearest(power)
    r = kl.cast(kl.fma(-k, c.LN2_64[0], power * c.LN2_64[0]), float32)
    n = kl.cast(whole, int32)
    half = power_of_two(n >> 1)
    value = kl.fma(expm1_near_0(r), half, half) * power_of_two(n - (n >> 1))
    return kl.where(power > 200, math.inf, kl.where(power < -200, 0.0, value))


@function
def _magnitude64(size: Any, y: Any) -> Any:
    high, low = _logarithm(size)
    power = y * high
    rest = kl.fma(y, high, -power) + y * low
    power = held(power, -1100.0, 1100.0)
    rest = kl.where(kl.abs(power) < 1100, rest, 0.0)
    k, n = nearest(power)
    return scaled(1 + expm1_near_0(((power - k) + rest) * c.LN2_64[0]), n)


@function
def _logarithm(x: Any) -> Any:
    """``log2(x)`` as a sum of two numbers."""
    m, n = split(x)
    f = m - 1
    below = 2 + f
    s = f / below
    s_low = (kl.fma(-s, below, f) - s * (f - (below - 2))) / below
    z, z_low = product(s, s)
    z_low = kl.fma(2 * s, s_low, z_low)
    cube, cube_low = product(s, z)
    cube_low = cube_low + kl.fma(s, z_low, s_low * z)
    third, third_low = product(cube, c.TWO_THIRDS_64[0])
    third_low = third_low + kl.fma(cube, c.TWO_THIRDS_64[1], cube_low * c.TWO_THIRDS_64[0])
    tail = cube * z * horner(z, c.LOG_TAIL_64)
    ln, ln_low = quick_sum(2 * s, third)
    ln_low = ln_low + (kl.fma(2.0, s_low, third_low) + tail)
    binary, binary_low = product(ln, c.LOG2_E_64[0])
    binary_low = binary_low + kl.fma(ln, c.LOG2_E_64[1], ln_low * c.LOG2_E_64[0])
    high, low = quick_sum(whole_number(n), binary)
    high = kl.where(x < math.inf, high, x)  # of infinity and NaN too
    return kl.where(x == 0, -math.inf, high), low + binary_low
