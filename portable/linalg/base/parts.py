"""Parts and squares of numbers that may be complex, as functions for kernels."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.linalg.base.magnitude import scaled_by


@function
def absolute_square(x: kl.Scalar) -> Any:
    """The square of a magnitude."""
    if x.dtype.is_complex:
        return kl.real(x) * kl.real(x) + kl.imag(x) * kl.imag(x)
    return x * x


@function
def conjugate(x: kl.Scalar) -> Any:
    """The conjugate."""
    return kl.conj(x) if x.dtype.is_complex else x


@function
def real_part(x: kl.Scalar) -> Any:
    """The real part."""
    return kl.real(x) if x.dtype.is_complex else x


@function
def largest_part(best: kl.Scalar, x: kl.Scalar) -> Any:
    """The larger of `best` and the magnitude of x, or that of its larger part."""
    if x.dtype.is_complex:
        return kl.maximum(best, kl.maximum(kl.abs(kl.real(x)), kl.abs(kl.imag(x))))
    return kl.maximum(best, kl.abs(x))


@function
def scaled(x: kl.Scalar, field: kl.Scalar, sign: int) -> Any:
    """A number times a power of two, or divided by it, as `scaled_by`; part by part."""
    if x.dtype.is_complex:
        return kl.complex(scaled_by(kl.real(x), field, sign), scaled_by(kl.imag(x), field, sign))
    return scaled_by(x, field, sign)
