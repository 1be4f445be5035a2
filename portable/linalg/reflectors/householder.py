"""What a Householder reflector is made of: in some forms."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function


@function
def reflector(alpha: kl.Scalar, tail: kl.Scalar) -> Any:
    """``(beta, tau, factor)`` of ``I - tau v v^T``, which maps x to ``(beta, 0, ..., 0)``.

    `alpha` is the first number of x and `tail` the sum of the squares of the others; v is 1 and
    the others times `factor`. A tail too small to be squared accurately is below all rounding
    errors, since the matrix is scaled: it is dropped.
    """
    small = 2.0**-900 if alpha.dtype == kl.f64 else 2.0**-100
    beta = alpha
    tau = alpha * 0
    factor = alpha * 0
    if tail > small:
        beta = -kl.copysign(kl.sqrt(alpha * alpha + tail), alpha)
        tau = (beta - alpha) / beta
        factor = 1 / (alpha - beta)
    return beta, tau, factor


@function
def reflector_of(alpha: kl.Scalar, tail: kl.Scalar) -> Any:
    """As `reflector`, of complex numbers too: ``I - tau v v^H`` with a real tau."""
    if not alpha.dtype.is_complex:
        return reflector(alpha, tail)
    small = 2.0**-900 if tail.dtype == kl.f64 else 2.0**-100
    size = kl.abs(alpha)
    beta, tau, factor = alpha, size * 0, alpha * 0
    if tail > small:
        length = kl.sqrt(size * size + tail)
        phase = kl.complex(size * 0 + 1, size * 0)
        if size > 0:
            phase = alpha / size
        beta = -(phase * length)
        tau = (size + length) / length
        factor = kl.conj(phase) / (size + length)
    return beta, tau, factor


@function
def mirror(alpha: kl.Scalar, tail: kl.Scalar) -> Any:
    """``(beta, head, scale)`` of ``I - scale v v^T``, which maps x to ``(beta, 0, ..., 0)``.

    v is x with `head` in place of its first number `alpha`, so that there is one division to wait
    for; `tail` as for `reflector`.
    """
    small = 2.0**-900 if alpha.dtype == kl.f64 else 2.0**-100
    beta = alpha
    head = alpha * 0
    scale = alpha * 0
    if tail > small:
        beta = -kl.copysign(kl.sqrt(alpha * alpha + tail), alpha)
        head = alpha - beta
        scale = -1 / (beta * head)
    return beta, head, scale


@function
def mirror_beside(alpha: kl.Scalar, tail: kl.Scalar) -> Any:
    """As `mirror`, without a branch, so that other work goes on beside it.

    A root and a reciprocal are made of inverse roots with a step of Newton's.
    """
    square = alpha * alpha + tail
    inverse = kl.rsqrt(square)
    root = square * inverse
    root = kl.fma(0.5 * inverse, kl.fma(-root, root, square), root)
    half = kl.fma(kl.abs(alpha), root, square)
    inverse = kl.rsqrt(half)
    scale = inverse * inverse
    scale = kl.fma(scale, kl.fma(-half, scale, 1), scale)
    some = tail > (2.0**-900 if alpha.dtype == kl.f64 else 2.0**-100)
    beta = kl.where(some, -kl.copysign(root, alpha), alpha)
    return beta, alpha - beta, kl.where(some, scale, 0)
