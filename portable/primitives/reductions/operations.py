"""What reductions do to elements before they merge them by words of the language."""

from __future__ import annotations

from typing import Any

from portable.lang.function import function

TRUE_WORD = 0x01010101
"""Four bools that are true, read as one integer."""


@function
def is_true(x: Any) -> Any:
    """Whether a number is not zero."""
    return x != 0


@function
def square_size(x: Any) -> Any:
    """The square of a complex number's size."""
    return x.real * x.real + x.imag * x.imag


@function
def all_true(x: Any) -> Any:
    """Whether four bools read as one integer are true."""
    return x == TRUE_WORD


@function
def how_many_true(x: Any) -> Any:
    """How many of four bools read as one integer are true: the sum of its bytes."""
    return (x * TRUE_WORD) >> 24
