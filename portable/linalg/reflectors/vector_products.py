"""Small products and transposes of matrices by one work-item, in vectors."""

from __future__ import annotations

from itertools import product
from math import gcd
from typing import Final

from portable import lang as kl
from portable.lang.function import function
from portable.primitives.base.lanes import mixed

_ROWS: Final = 8
_VECTORS: Final = 2
"""Of sums that registers hold: half of those that AVX-512 has, which are kept busy so."""


@function
def add_product(total: kl.Array, left: kl.Array, right: kl.Array, LANES: int) -> None:
    """``total += left @ right``, where rows of `total` and `right` are whole vectors."""
    combine(total, left, right, LANES, 0, False)


@function
def subtract_product(
    total: kl.Array, left: kl.Array, right: kl.Array, LANES: int, AHEAD: int = 0
) -> None:
    """``total -= left @ right``, and what is so far ahead of `total` comes to the caches."""
    combine(total, left, right, LANES, AHEAD, True)


@function
def combine(
    total: kl.Array, left: kl.Array, right: kl.Array, LANES: int, AHEAD: int, NEGATIVE: bool
) -> None:
    """Adds a product to blocks of `total` in registers, or subtracts it.

    The loop over k is not unrolled: of neighbours in a row of `left` compilers make vectors, whose
    lanes it takes them longer to spread than to load them one by one.
    """
    ROWS, VECTORS = gcd(total.shape[0], _ROWS), gcd(total.shape[1] // LANES, _VECTORS)
    sums = kl.private((ROWS, VECTORS), total.dtype, lanes=LANES)
    for column in range(0, total.shape[1], VECTORS * LANES):
        for row in range(0, total.shape[0], ROWS):
            for u, v in product(kl.static_range(ROWS), kl.static_range(VECTORS)):
                at = column + v * LANES
                sums[u, v] = kl.vload(total, row + u, at, lanes=LANES, ahead=AHEAD)
            for k in kl.range(left.shape[1], unroll=1):
                held = ()
                for v in kl.static_range(VECTORS):
                    value = kl.vload(right, k, column + v * LANES, lanes=LANES)
                    held = (*held, value)  # type: ignore[assignment]
                for u in kl.static_range(ROWS):
                    factor = kl.splat(left[row + u, k], LANES)
                    for v in kl.static_range(VECTORS):
                        if NEGATIVE:
                            sums[u, v] = sums[u, v] - factor * held[v]
                        else:
                            sums[u, v] = sums[u, v] + factor * held[v]
            for u, v in product(kl.static_range(ROWS), kl.static_range(VECTORS)):
                kl.vstore(total, row + u, column + v * LANES, sums[u, v])


@function
def transpose(source: kl.Array, target: kl.Array, LANES: int) -> None:
    """``target = source.T``, both of whole vectors; they are not the same."""
    for row in range(0, source.shape[0], LANES):
        for column in range(0, source.shape[1], LANES):
            rows = ()
            for i in kl.static_range(LANES):
                value = kl.vload(source, row + i, column, lanes=LANES)
                rows = (*rows, value)  # type: ignore[assignment]
            columns = mixed(rows, LANES, LANES)
            for i in kl.static_range(LANES):
                kl.vstore(target, column + i, row, columns[i])
