"""Random numbers in kernels: ``kl.random``, the generator Philox 4x32-10.

A counter-based generator has no state: the numbers are a function of a seed and an index, so that
each work-item draws its own, in any order, and every device draws the same. A `stream` numbers
independent sequences of one seed.

    u, v, _, _ = kl.random.uniform(seed, kl.global_id(0))

Source: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as
1, 2, 3", SC 2011.
"""

from __future__ import annotations

from typing import Any, Final

from portable.dtypes import float32, float64, uint32, uint64
from portable.lang import words as kl
from portable.lang.function import function

_ROUNDS: Final = 10
_MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
_WEYL: Final = (0x9E3779B9, 0xBB67AE85)
_TURN: Final = 6.283185307179586


@function
def philox(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> Any:
    """Four u32 numbers of a counter of four u32 and a key of two, all 128 bits of it used."""
    m0, m1 = uint32(_MULTIPLIERS[0]), uint32(_MULTIPLIERS[1])
    for _ in kl.static_range(_ROUNDS):
        high0, high1 = kl.mulhi(m0, c0), kl.mulhi(m1, c2)
        low0, low1 = m0 * c0, m1 * c2
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + uint32(_WEYL[0]), k1 + uint32(_WEYL[1])
    return c0, c1, c2, c3


@function
def bits(seed: Any, index: Any, stream: Any = 0, attempt: Any = 0) -> Any:
    """Four u32 numbers, all values equally likely.

    `seed` and `index` are taken as 64 bits, `stream` and `attempt` as 32; the last is for methods
    that draw again until a number suits.
    """
    key, at = uint64(seed), uint64(index)
    k0, k1 = uint32(key), uint32(key >> 32)
    return philox(uint32(at), uint32(at >> 32), uint32(stream), uint32(attempt), k0, k1)


@function
def unit32(word: Any) -> Any:
    """f32 from 0 to 1, without 1: the upper 24 bits of a u32."""
    return float32(word >> 8) * 2.0**-24


@function
def unit64(high: Any, low: Any) -> Any:
    """f64 from 0 to 1, without 1: 53 bits of two u32."""
    return float64(((uint64(high) << 32) | uint64(low)) >> 11) * 2.0**-53


@function
def uniform(seed: Any, index: Any, stream: Any = 0) -> Any:
    """Four f32 from 0 to 1, without 1: multiples of 2**-24, the same on every device."""
    a, b, c, d = bits(seed, index, stream)
    return unit32(a), unit32(b), unit32(c), unit32(d)


@function
def uniform64(seed: Any, index: Any, stream: Any = 0) -> Any:
    """Two f64 from 0 to 1, without 1: multiples of 2**-53, the same on every device."""
    a, b, c, d = bits(seed, index, stream)
    return unit64(a, b), unit64(c, d)


@function
def pair32(a: Any, b: Any) -> Any:
    """Two normal f32 of two u32, by the method of Box and Muller; at most 6.7 from 0."""
    radius = kl.sqrt(-2.0 * kl.log(float32(a) * 2.0**-32 + 2.0**-33))
    angle = _TURN * unit32(b)
    return radius * kl.cos(angle), radius * kl.sin(angle)


@function
def pair64(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Two normal f64 of four u32, by the method of Box and Muller; at most 8.6 from 0."""
    radius = kl.sqrt(-2.0 * kl.log(unit64(a, b) + 2.0**-54))
    angle = _TURN * unit64(c, d)
    return radius * kl.cos(angle), radius * kl.sin(angle)


@function
def normal(seed: Any, index: Any, stream: Any = 0) -> Any:
    """Four f32 of the standard normal distribution; devices differ by rounding."""
    a, b, c, d = bits(seed, index, stream)
    (w, x), (y, z) = pair32(a, b), pair32(c, d)
    return w, x, y, z


@function
def normal64(seed: Any, index: Any, stream: Any = 0) -> Any:
    """Two f64 of the standard normal distribution; devices differ by rounding."""
    a, b, c, d = bits(seed, index, stream)
    return pair64(a, b, c, d)
