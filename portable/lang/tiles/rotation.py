"""Rotation of a pipeline: what a round does for the next one.

Rotated, the barrier of the next round comes before the last k-step of this one, so that the first
operands of the next tile are on their way while the matrix units work. Waits, copies and barriers
keep their order; one wait and one barrier more follow the last round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.facts import Facts
from portable.lang.ir.pipeline import Pipeline
from portable.lang.ir.types import Fragment
from portable.lang.ir.walks import resolved, substituted
from portable.lang.tiles.work import add

_Change = Callable[[e.Expression], e.Expression]


@dataclass(frozen=True, slots=True)
class Rotation:
    """The pieces of a pipeline that is rotated.

    Attributes
    ----------
    waits : tuple of statements
        Before the first round, and again within each before its last k-step.
    bindings, copies : tuple of statements
        What a round binds, and what it copies meanwhile.
    product : Multiply
        The round's multiplication.
    first, following : Multiply
        The same with the operands of the first and of the next round, which refer to no binding of
        the round.
    """

    waits: s.Block
    bindings: s.Block
    copies: s.Block
    product: s.Multiply
    first: s.Multiply
    following: s.Multiply


def rotation(x: Pipeline) -> Rotation | None:
    """The pieces of a pipeline; None where it is not to be rotated, or has no slot to spare."""
    alone = x.product[-1] is x.multiply
    if not x.rotated or not x.ahead or not alone or any(y.blocks() for y in x.body):
        return None
    values = {y.var.name: y.value for y in x.body if isinstance(y, s.Let)}
    unbound = _moved(x.multiply, lambda y: resolved(y, values))
    after = add(x.var, x.step)
    copying = s.CopyTile | s.CopyCommit
    return Rotation(
        x.waits,
        tuple(y for y in x.body if not isinstance(y, s.Multiply | copying)),
        (*(y for y in x.copies if isinstance(y, copying)), s.CopyCommit(x.loc)),
        x.multiply,
        _moved(unbound, lambda y: substituted(y, {x.var.name: x.start})),
        _moved(unbound, lambda y: substituted(y, {x.var.name: after})),
    )


def exist_always(x: s.Multiply, facts: Facts) -> bool:
    """Whether operands surely lie inside their tiles, also in a round that never comes."""
    return all(
        bounds.low >= 0 and bounds.high <= extent - (taken or 1)
        for operand in (x.a, x.b)
        if isinstance(operand, e.Region)
        for start, taken, extent in zip(
            operand.starts, operand.extents, operand.array.shape, strict=True
        )
        for bounds in (facts.bounds(start),)
    )


def _moved(x: s.Multiply, change: _Change) -> s.Multiply:
    """A multiplication whose operands begin elsewhere."""
    return replace(x, a=_operand(x.a, change), b=_operand(x.b, change), valid=None)


def _operand(x: Fragment | e.Region, change: _Change) -> Fragment | e.Region:
    if isinstance(x, Fragment):
        return x
    starts = tuple(change(start) for start in x.starts)
    return e.Region(x.array, starts, x.extents, x.transposed)
