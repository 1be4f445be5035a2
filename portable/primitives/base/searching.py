"""Binary search, as a function for kernels."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function


@function
def partition_point(low: kl.Scalar, high: kl.Scalar, holds: Any) -> Any:
    """The first number from `low` on for which a condition no longer holds; `high` if it does."""
    while low < high:
        middle = low + (high - low) // 2
        if holds(middle):
            low = middle + 1
        else:
            high = middle
    return low
