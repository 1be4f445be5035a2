"""A panel turned into a triangle by one work-item, columns across the lanes of vectors."""

from __future__ import annotations

from typing import Final

from portable import lang as kl
from portable.lang.function import function
from portable.linalg.reflectors.householder import reflector

_CHAIN: Final = 32
"""Rows that are added up one after the other: where all terms have one sign, rounding errors of
long sums make reflectors less orthogonal than all else does."""


@function
def eliminate_single(
    w: kl.Array, made: kl.Array, factors: kl.Array, extents: tuple[kl.Scalar, ...], LANES: int
) -> None:
    """The reflectors of so many columns of a panel, of which so many rows are not zeros.

    The triangle is left in `w`, and V of ``Q = I - V T V^T`` below its diagonal, where columns are
    yet to be multiplied with `factors` and the diagonal to be ones; `made` becomes T transposed. A
    pass over the panel applies a reflector and makes the products of which the next one is made.
    """
    steps, used = extents
    P, kind = w.shape[1], w.dtype
    PARTS = P // LANES
    live, product = kl.private(P, kind), kl.private(P, kind)
    sums, odd = kl.private(PARTS, kind, lanes=LANES), kl.private(PARTS, kind, lanes=LANES)
    shares, totals = kl.private(PARTS, kind, lanes=LANES), kl.private(PARTS, kind, lanes=LANES)
    zero = kl.splat(kl.cast(0, kind), LANES)
    for k in range(P):
        factors[k] = 1
        live[k] = 1
    multiply_first(w, used, sums, totals, LANES)
    for j in range(steps):
        for i in kl.static_range(PARTS):
            kl.vstore(product, i * LANES, sums[i])
        beta, tau, factor = reflector(w[j, j], product[j])
        live[j] = 0
        for i in kl.static_range(PARTS):
            both = kl.vload(w, j, i * LANES, lanes=LANES) + factor * sums[i]
            both = both * kl.vload(factors, i * LANES, lanes=LANES)
            kl.vstore(product, i * LANES, both)
            shares[i] = (tau * both) * kl.vload(live, i * LANES, lanes=LANES)
            kl.vstore(w, j, i * LANES, kl.vload(w, j, i * LANES, lanes=LANES) - shares[i])
            shares[i] = factor * shares[i]
            sums[i], odd[i] = zero, zero
        w[j, j] = beta
        factors[j] = factor
        add_to_factor(made, product, j, tau, LANES)
        reflect_and_multiply(w, (j, used), shares, (sums, odd, totals), LANES)


@function
def multiply_first(
    w: kl.Array, used: kl.Scalar, sums: kl.Array, totals: kl.Array, LANES: int
) -> None:
    """The products of all columns with the first one, but for the row of its reflector."""
    zero = kl.splat(kl.cast(0, w.dtype), LANES)
    for i in kl.static_range(sums.shape[0]):
        sums[i], totals[i] = zero, zero
    for first in range(1, used, _CHAIN):
        for r in range(first, kl.minimum(first + _CHAIN, used)):
            multiply_row(w, r, 0, sums, LANES)
        for i in kl.static_range(sums.shape[0]):
            totals[i] = totals[i] + sums[i]
            sums[i] = zero
    for i in kl.static_range(sums.shape[0]):
        sums[i] = totals[i]


@function
def add_to_factor(
    made: kl.Array, product: kl.Array, j: kl.Scalar, tau: kl.Scalar, LANES: int
) -> None:
    """Row `j` of T transposed, from products of its reflector with those before."""
    for i in kl.static_range(made.shape[1] // LANES):
        total = kl.splat(kl.cast(0, made.dtype), LANES)
        for k in range(j):
            total = total + product[k] * kl.vload(made, k, i * LANES, lanes=LANES)
        kl.vstore(made, j, i * LANES, -tau * total)
    made[j, j] = tau


@function
def reflect_and_multiply(
    w: kl.Array,
    at: tuple[kl.Scalar, ...],
    shares: kl.Array,
    room: tuple[kl.Array, ...],
    LANES: int,
) -> None:
    """Applies a reflector, and makes the products of all columns with the next one.

    `at` are the reflector's column and how many rows are used, `room` where sums go, and room for
    those of every other row and of chains. Rows go in pairs, which do not wait for each other.
    """
    (j, used), (sums, odd, totals) = at, room
    zero = kl.splat(kl.cast(0, w.dtype), LANES)
    if j + 1 < used:
        subtract_row(w, j + 1, j, shares, LANES)
    after = kl.minimum(j + 1, w.shape[1] - 1)
    for i in kl.static_range(sums.shape[0]):
        totals[i] = zero
    for first in range(j + 2, used - 1, _CHAIN):
        for r in range(first, kl.minimum(first + _CHAIN, used - 1), 2):
            subtract_row(w, r, j, shares, LANES)
            multiply_row(w, r, after, sums, LANES)
            subtract_row(w, r + 1, j, shares, LANES)
            multiply_row(w, r + 1, after, odd, LANES)
        for i in kl.static_range(sums.shape[0]):
            totals[i] = totals[i] + (sums[i] + odd[i])
            sums[i], odd[i] = zero, zero
    if j + 2 < used and (used - j) % 2 == 1:
        subtract_row(w, used - 1, j, shares, LANES)
        multiply_row(w, used - 1, after, sums, LANES)
    for i in kl.static_range(sums.shape[0]):
        sums[i] = totals[i] + sums[i]


@function
def subtract_row(w: kl.Array, r: kl.Scalar, j: kl.Scalar, shares: kl.Array, LANES: int) -> None:
    """A row less its share of the reflector of column `j`."""
    x = w[r, j]
    for i in kl.static_range(shares.shape[0]):
        kl.vstore(w, r, i * LANES, kl.vload(w, r, i * LANES, lanes=LANES) - x * shares[i])


@function
def multiply_row(w: kl.Array, r: kl.Scalar, j: kl.Scalar, sums: kl.Array, LANES: int) -> None:
    """Adds a row's part of the products of all columns with column `j`."""
    x = w[r, j]
    for i in kl.static_range(sums.shape[0]):
        sums[i] = sums[i] + x * kl.vload(w, r, i * LANES, lanes=LANES)
