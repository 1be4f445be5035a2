"""Loops as adjoints know them: a body that runs through, a flag that ends it, how many rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from portable.dtypes import DType
from portable.errors import Location
from portable.lang.ir import expressions as e
from portable.lang.ir.expressions import BINDS, BLOCK, READS
from portable.lang.ir.statements import Block, Statement


@dataclass(frozen=True, slots=True)
class Rounds(Statement):
    """A `For` or `Loop` whose body has no `Break`, `Continue` or `Return`.

    Attributes
    ----------
    var : Variable or None
        The counter; None of a `Loop`.
    bounds : tuple of Expression, or None
        Start, stop and step as of `For`.
    going : Variable or None
        A variable of the kernel: no round follows one that leaves it false. It is true before the
        first. None where nothing ends the loop early.
    body : Block
    loc : Location
    unroll : int
        As of `For`.
    """

    var: e.Variable | None = field(metadata=BINDS)
    bounds: tuple[e.Expression, e.Expression, e.Expression] | None = field(metadata=READS)
    going: e.Variable | None = field(metadata=READS)
    body: Block = field(metadata=BLOCK)
    loc: Location
    unroll: int = 0


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
    length = high if isinstance(low, e.Const) and low.value == 0 else e.Binary("sub", high, low)
    some = e.Compare("gt", high, low)
    none = e.Const(0, kind)
    if size == 1:
        return e.Select(some, length, none)
    more = e.Binary("add", e.Select(some, length, none), e.Const(size - 1, kind))
    return e.Binary("floordiv", more, e.Const(size, kind), nonnegative=True)
