"""Loops that find the greatest or least of what they load, by ``most = maximum(most, x[k])``.

On the way back the value of the result tells whose it was: no round has to keep what it began with.
This is so for loads alone. What is worked out may come out otherwise, in its last bit, when it is
worked out again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from portable.dtypes import DType
from portable.gradients.adjoint.names import zero
from portable.gradients.adjoint.rounds import Rounds
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.walks import all_statements, names_in, reads


def extremes(loop: Rounds, kernel: Kernel) -> dict[int, tuple[e.Variable, e.Variable]]:
    """The variables that a loop of a flat program makes so, by the identity of the comparison.

    With each is the name of what is loaded.

    A variable is read by nothing else in the loop, nor is the result but to become its new value.
    """
    inside = list(all_statements(loop.body))
    times = Counter(name for x in inside for y in reads(x) for name in names_in(y))
    sets = Counter(x.var.name for x in inside if isinstance(x, s.Assign))
    loaded = {x.var.name for x in all_statements(kernel.body) if isinstance(x, s.Load)}
    reading = {x.var.name: x.value for x in inside if isinstance(x, s.Let)}
    assigned = {
        x.value.name: x.var
        for x in _of_rounds(loop.body)
        if isinstance(x, s.Assign) and isinstance(x.value, e.Variable)
    }
    result: dict[int, tuple[e.Variable, e.Variable]] = {}
    for x in _of_rounds(loop.body):
        if not isinstance(x, s.Let) or x.var.name not in assigned or times[x.var.name] != 1:
            continue
        cell, (before, new) = assigned[x.var.name], _operands(x.value)
        if before is None or new is None or times[before.name] != 1 or new.name not in loaded:
            continue
        if reading.get(before.name) == cell and times[cell.name] == sets[cell.name] == 1:
            result[id(x)] = cell, new
    return result


def extreme_shares(
    value: e.Expression, final: e.Variable, adjoint: e.Expression
) -> Iterator[tuple[e.Expression, e.Expression]]:
    """What such a comparison gives to what it compares, where a loop came to a final value."""
    before, new = _operands(value)
    assert before is not None
    assert new is not None
    won, nothing = e.Compare("eq", new, final), zero(adjoint.type)
    yield before, e.Select(won, nothing, adjoint)
    yield new, e.Select(won, adjoint, nothing)


def _operands(x: e.Expression) -> tuple[e.Variable | None, e.Variable | None]:
    """What was found before, and what is compared with it."""
    match x:
        case e.Binary(op="min" | "max", x=e.Variable() as before, y=e.Variable() as new):
            return (before, new) if isinstance(x.type, DType) else (None, None)
        case _:
            return None, None


def _of_rounds(block: s.Block) -> Iterator[s.Statement]:
    """The statements of a loop's rounds, without those of loops in it."""
    for x in block:
        yield x
        if not isinstance(x, Rounds):
            for part in x.blocks():
                yield from _of_rounds(part)
