"""Lanes of vectors in another order, as functions for kernels."""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function

_MOST_MIXED: Final = 5
"""Times that vectors are mixed at most: of 32 one is made of a lane of each after the other."""


@function
def mixed(rows: tuple[kl.Scalar, ...], RUN: int, LANES: int) -> Any:
    """The numbers of `RUN` vectors, a lane of each after the other, in as many vectors.

    Those of the first half are mixed with those of the second one, lane by lane, until neighbours
    are from all of them. As many vectors as they have lanes are transposed by that.
    """
    low = tuple(i // 2 + i % 2 * LANES for i in range(LANES))
    high = tuple((i + LANES) // 2 + i % 2 * LANES for i in range(LANES))
    for level in kl.static_range(_MOST_MIXED):
        if 1 << level < RUN:
            halves = ()
            for i in kl.static_range(RUN // 2):
                a, b = rows[i], rows[i + RUN // 2]
                halves = (*halves, kl.shuffle2(a, b, low), kl.shuffle2(a, b, high))  # type: ignore[assignment]
            rows = halves
    return rows
