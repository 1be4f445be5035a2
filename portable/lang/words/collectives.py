"""What a workgroup works out together."""

from __future__ import annotations

from typing import Any

from portable.lang.words.word import word

__all__ = [
    "workgroup_all",
    "workgroup_any",
    "workgroup_broadcast",
    "workgroup_range",
    "workgroup_reduce",
    "workgroup_scan",
]


@word
def workgroup_reduce(op: Any, x: Any, *, width: int | None = None) -> Any:
    """`x` of all work-items, combined by `op`; every work-item gets it, and it counts as uniform.

    With `width`, a constant that divides the work-items, of so many neighbours each, who get their
    own result; then it does not count as uniform.

    `op` is a function of two values that gives one of the same types: `add`, `maximum`, or any
    marked `portable.function`. It has to be associative and need not commute: values are combined
    in the order of `local_linear_id`. `x` is a number, or a tuple or struct of numbers. The whole
    workgroup has to get here. Local memory and barriers that are needed are included; memory of
    the caller's own is not ordered by it. A workgroup of one costs nothing.

    >>> @pt.function
    ... def larger(x, y):
    ...     return x if x.value >= y.value else y
    >>> best = kl.workgroup_reduce(larger, Found(value, index))  # doctest: +SKIP
    """


@word
def workgroup_scan(
    op: Any,
    x: Any,
    *,
    inclusive: bool = True,
    initial: Any = None,
    total: bool = False,
    width: int | None = None,
) -> Any:
    """`x` of the work-items up to this one, combined by `op` as `workgroup_reduce` does.

    With ``inclusive=False`` that of the work-items before this one; then `initial` is needed, which
    is combined from the left in any case where it is given: it is what the first work-item gets.
    ``total=True`` gives a pair, with what all have combined, `initial` included, as the second.
    With `width`, a constant that divides the work-items, so many neighbours each are scanned by
    themselves.
    """


@word
def workgroup_any(x: Any) -> Any:
    """Whether some work-item's `x`, a bool, is true; counts as uniform."""


@word
def workgroup_all(x: Any) -> Any:
    """Whether every work-item's `x`, a bool, is true; counts as uniform."""


@word
def workgroup_broadcast(x: Any, index: Any) -> Any:
    """`x` of the work-item whose `local_linear_id` is `index`, the same for all; uniform.

    `x` is a number, or a tuple or struct of numbers.
    """


@word
def workgroup_range(start: Any, stop: Any = None, step: Any = 1, *, unroll: int = 0) -> Any:
    """For loops only: a range whose rounds the work-items of the workgroup share out.

    Neighbours take neighbouring rounds (in CUDA's words, a block-stride loop); one work-item alone
    walks through all of them.
    """
