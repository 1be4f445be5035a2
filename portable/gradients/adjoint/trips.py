"""How many rounds a loop runs, where its bounds say so."""

from __future__ import annotations

from collections.abc import Callable

from portable.dtypes import DType
from portable.gradients.adjoint.rounds import Rounds
from portable.lang.ir import expressions as e


def integer_type(x: e.Expression) -> DType:
    """The type of an integer scalar."""
    assert isinstance(x.type, DType)
    return x.type


def trips(x: Rounds, of: Callable[[e.Expression], e.Expression]) -> e.Expression | None:
    """The number of rounds as an expression; None where it has to be counted.

    Parameters
    ----------
    x : Rounds
    of : callable
        Gives the bounds in the names that are in sight.
    """
    if x.going is not None or x.bounds is None:
        return None
    start, stop, step = x.bounds
    kind = integer_type(start)
    if not isinstance(step, e.Const) or kind.kind == "u":
        return None
    size = abs(int(step.value))
    low, high = (start, stop) if step.value > 0 else (stop, start)
    if isinstance(low, e.Const) and isinstance(high, e.Const):
        return e.Const(max(0, -(-(int(high.value) - int(low.value)) // size)), kind)
    low, high = of(low), of(high)
    length = high if _is_zero(low) else e.Binary("sub", high, low)
    some = e.Compare("gt", high, low)
    none = e.Const(0, kind)
    if size == 1:
        return e.Select(some, length, none)
    more = e.Binary("add", e.Select(some, length, none), e.Const(size - 1, kind))
    return e.Binary("floordiv", more, e.Const(size, kind), nonnegative=True)


def _is_zero(x: e.Expression) -> bool:
    return isinstance(x, e.Const) and x.value == 0
