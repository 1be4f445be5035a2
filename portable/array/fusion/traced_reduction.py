"""What a fused function merges at its end: sums, extremes, means, votes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from portable import dtypes
from portable import lang as kl
from portable.array.base.operations import OPERATIONS
from portable.dtypes import DType, bool_
from portable.errors import DTypeError
from portable.primitives.base.numbers import highest, lowest
from portable.primitives.base.promotion import accumulator
from portable.primitives.maps.operation import conversion_to
from portable.primitives.reductions.merging import Merge

__all__ = ["REDUCTIONS", "Reduction", "reduction"]


@dataclass(frozen=True, slots=True)
class Reduction:
    """One value that is merged.

    Attributes
    ----------
    value : int
        Its number among the values of a trace.
    merge : Merge
        How.
    is_mean : bool
        Whether the result is divided by the number of elements.
    result : DType
        Of the result.
    empty : bool
        Whether nothing has a result.
    """

    value: int
    merge: Merge
    is_mean: bool
    result: DType
    empty: bool = True


def _sum(x: Any) -> Reduction:
    x = _as_number(x)
    result = accumulator(x.dtype) if x.dtype.is_integer else x.dtype
    return Reduction(x.number, Merge(kl.add, accumulator(x.dtype), 0), False, result)


def _prod(x: Any) -> Reduction:
    x = _as_number(x)
    result = accumulator(x.dtype) if x.dtype.is_integer else x.dtype
    return Reduction(x.number, Merge(kl.multiply, accumulator(x.dtype), 1), False, result)


def _mean(x: Any) -> Reduction:
    if x.dtype.kind in "biu":
        x = x.record(conversion_to(x.trace.default("f")), (x,))
    return Reduction(x.number, Merge(kl.add, accumulator(x.dtype), 0), True, x.dtype)


def _best(x: Any, merge: Any, neutral: Callable[[DType], float]) -> Reduction:
    kind: DType = x.dtype
    if kind.kind not in "iuf":
        raise DTypeError(f"the least and the greatest are of real numbers, not {kind.name}")
    merged = Merge(merge, kind.register, neutral(kind))
    return Reduction(x.number, merged, False, kind, empty=False)


def _vote(x: Any, merge: Any, initial: bool) -> Reduction:
    if x.dtype is not bool_:
        x = x.record(OPERATIONS["not_equal"], (x, 0))
    return Reduction(x.number, Merge(merge, bool_, initial), False, bool_)


def _as_number(x: Any) -> Any:
    return x.record(conversion_to(dtypes.int64), (x,)) if x.dtype is bool_ else x


REDUCTIONS: Final[dict[str, Callable[[Any], Reduction]]] = {
    "all": lambda x: _vote(x, kl.bitwise_and, True),
    "any": lambda x: _vote(x, kl.bitwise_or, False),
    "max": lambda x: _best(x, kl.maximum, lowest),
    "mean": _mean,
    "min": lambda x: _best(x, kl.minimum, highest),
    "prod": _prod,
    "sum": _sum,
}
"""By name, what becomes of a traced value."""


def reduction(name: str, x: Any) -> Reduction:
    """The reduction of a traced value."""
    return REDUCTIONS[name](x)
