"""Arrays from formulas."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["counted", "diagonal", "generated"]


@function
def counted(i: Any, start: Any, step: Any, KIND: Any) -> Any:
    """Element `i` of an arithmetic progression."""
    return start + kl.cast(i, KIND) * step


@function
def diagonal(i: Any, columns: Any, k: Any, KIND: Any) -> Any:
    """Element `i` of a matrix with ones on one diagonal."""
    place = kl.cast(i, KIND)
    return kl.where(place % columns - place // columns == k, kl.cast(1, KIND), kl.cast(0, KIND))


@kernel(contract=False)
def generated(a: Any, b: Any, out: Any, *, OP: Any, KIND: Any, STORED: Any) -> None:
    """``out[i] = OP(i, a, b)``."""
    i = kl.global_id(0)
    if i < out.shape[0]:
        out[i] = kl.cast(OP(i, a, b, KIND), STORED)
