"""Transforms of a few complex numbers held in registers: the steps that longer ones are made of.

Their lengths are constants, so that all rotations are; the parts of the numbers may be vectors.
"""

from __future__ import annotations

import math
from typing import Any

from portable import lang as kl
from portable.lang.function import function


@function
def times(x: kl.Scalar, y: kl.Scalar) -> Any:
    """The product of complex numbers, without the care for infinities that ``*`` takes."""
    return kl.complex(x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real)


@function
def cosine(k: int, n: int) -> float:
    """``cos(2 pi k / n)`` within an ulp: angles are brought into an eighth of the circle first."""
    k = k % n
    if 2 * k > n:
        return cosine(n - k, n)  # type: ignore[no-any-return]
    if 4 * k > n:
        return -cosine(n - 2 * k, 2 * n)  # type: ignore[no-any-return]
    if 8 * k > n:
        return math.sin(2 * math.pi * (n - 4 * k) / (4 * n))
    return math.cos(2 * math.pi * k / n)


@function
def sine(k: int, n: int) -> float:
    """``sin(2 pi k / n)``, the cosine a quarter of the circle away."""
    return cosine(n - 4 * k, 4 * n)  # type: ignore[no-any-return]


@function
def rotated(z: kl.Scalar, k: int, n: int) -> Any:
    """``exp(-2 pi i k / n) z``."""
    if k == 0:
        return z
    if 4 * k == n:
        return kl.complex(z.imag, -z.real)
    if 8 * k == n:
        half = math.sqrt(0.5)
        return kl.complex((z.real + z.imag) * half, (z.imag - z.real) * half)
    c, s = cosine(k, n), sine(k, n)
    return kl.complex(z.real * c + z.imag * s, z.imag * c - z.real * s)


@function
def smallest_factor(n: int) -> int:
    """The smallest prime factor of a number below 25."""
    return 2 if n % 2 == 0 else 3 if n % 3 == 0 else n


@function
def dft(values: tuple[kl.Scalar, ...]) -> Any:
    """The transform of a tuple of up to 16 complex numbers.

    Decimation in time (Cooley and Tukey 1965) down to prime lengths.
    """
    R = len(values)
    if R == 1:
        return values
    P = smallest_factor(R)
    if P == R:
        return _of_two(values) if R == 2 else _of_odd(values)
    Q = R // P
    parts = [dft(values[p::P]) for p in kl.static_range(P)]
    columns = [
        dft([rotated(parts[p][q], p * q, R) for p in kl.static_range(P)])
        for q in kl.static_range(Q)
    ]
    return [columns[k % Q][k // Q] for k in kl.static_range(R)]


@function
def _of_two(values: tuple[kl.Scalar, ...]) -> Any:
    return values[0] + values[1], values[0] - values[1]


@function
def _of_odd(values: tuple[kl.Scalar, ...]) -> Any:
    """An odd prime length: pairs of mirror images share their cosines and sines."""
    R = len(values)
    pairs = [_of_two((values[j], values[R - j])) for j in kl.static_range(1, R // 2 + 1)]
    first = values[0]
    for total, _ in pairs:
        first = first + total
    outputs = [_mirror_images(values[0], pairs, k, R) for k in kl.static_range(1, R // 2 + 1)]
    return (first, *[near for near, _ in outputs], *[far for _, far in reversed(outputs)])


@function
def _mirror_images(first: kl.Scalar, pairs: Any, k: int, n: int) -> Any:
    """Elements `k` and ``n - k`` of a transform, of the sums and gaps of mirror images."""
    even = first
    odd = weighted(pairs[0][1], sine(k, n))
    for j, (total, gap) in enumerate(pairs):
        even = even + weighted(total, cosine((j + 1) * k, n))
        if j > 0:
            odd = odd + weighted(gap, sine((j + 1) * k, n))
    near = kl.complex(even.real + odd.imag, even.imag - odd.real)
    return near, kl.complex(even.real - odd.imag, even.imag + odd.real)


@function
def weighted(z: kl.Scalar, weight: float) -> Any:
    """A complex number times a real one."""
    return kl.complex(z.real * weight, z.imag * weight)
