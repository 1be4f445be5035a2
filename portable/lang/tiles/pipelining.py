"""What a round of a pipeline does for the next one: rotation on GPUs, prefetching on processors.

Rotated, the barrier of the next round comes before the last k-step of this one, so that the first
operands of the next tile are on their way while the matrix units work. Waits, copies and barriers
keep their order; one wait and one barrier more follow the last round.

A processor's own prefetching begins anew with every row of a tile; where the lines of the next
tiles are asked for while this one is multiplied, products of two cores of a Xeon took 0.96 of the
time. The lines are shared out over the micro-tiles of a multiplication, a few before each: more at
once keep its own loads waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from portable.dtypes import DType
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.facts import Facts
from portable.lang.ir.kernel import map_expression
from portable.lang.ir.pipeline import Pipeline
from portable.lang.ir.types import Fragment, Region
from portable.lang.tiles.lanes import divided, remainder
from portable.lang.tiles.parts import kept_dims
from portable.lang.tiles.regions import place
from portable.lang.tiles.work import Code, add, mul

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
    values = {y.var: y.value for y in x.body if isinstance(y, s.Let)}
    unbound = _moved(x.multiply, lambda y: resolved(y, values))
    after = add(x.var, x.step)
    copying = s.CopyTile | s.CopyCommit
    return Rotation(
        x.waits,
        tuple(y for y in x.body if not isinstance(y, s.Multiply | copying)),
        (*(y for y in x.copies if isinstance(y, copying)), s.CopyCommit(x.loc)),
        x.multiply,
        _moved(unbound, lambda y: resolved(y, {x.var: x.start})),
        _moved(unbound, lambda y: resolved(y, {x.var: after})),
    )


def exist_always(x: s.Multiply, facts: Facts) -> bool:
    """Whether operands surely lie inside their tiles, also in a round that never comes."""
    return all(
        bounds.low >= 0 and bounds.high <= extent - (taken or 1)
        for operand in (x.a, x.b)
        if isinstance(operand, Region)
        for start, taken, extent in zip(
            operand.starts, operand.extents, operand.array.shape, strict=True
        )
        for bounds in (facts.bounds(start),)  # type: ignore[arg-type]
    )


def _moved(x: s.Multiply, change: _Change) -> s.Multiply:
    """A multiplication whose operands begin elsewhere."""
    return replace(x, a=_operand(x.a, change), b=_operand(x.b, change), valid=None)


def _operand(x: Fragment | Region, change: _Change) -> Fragment | Region:
    if isinstance(x, Fragment):
        return x
    starts = tuple(change(start) for start in x.starts)  # type: ignore[arg-type]
    return Region(x.array, starts, x.extents, x.transposed)


def resolved(x: e.Expression, values: dict[e.Variable, e.Expression]) -> e.Expression:
    """An expression with bindings replaced by their values, which may name bindings before them."""
    for var in reversed(values):
        x = map_expression(x, lambda y, var=var: values[var] if y == var else y)  # type: ignore[misc]
    return x


# -- prefetching -----------------------------------------------------------------------------------

_MOST: Final = 12
"""Lines of one operand that are asked for before a micro-tile; where there are more, none are."""


def next_sources(loop: Pipeline) -> list[Region]:
    """The regions of global arrays that the next round copies, in terms of this one."""
    values = {x.var: x.value for x in loop.body if isinstance(x, s.Let)}
    after = {loop.var: add(loop.var, loop.step)}
    sources = []
    for x in loop.body:
        if isinstance(x, s.CopyTile) and _in_lines(x.source):
            starts = tuple(
                resolved(resolved(start, values), after)  # type: ignore[arg-type]
                for start in x.source.starts
            )
            sources.append(replace(x.source, starts=starts))
    return sources


def _in_lines(region: Region) -> bool:
    """Whether it is a rectangle with one dimension along which elements lie together."""
    array = region.array
    unit = [dim for dim in kept_dims(region) if array.strides[dim : dim + 1] == ("unit",)]
    plain = not (region.joined or region.steps)
    return array.space == "global" and plain and len(unit) == 1


def prefetch(code: Code, regions: list[Region], turn: e.Expression, turns: int) -> None:
    """Prefetches one turn's share of the cache lines of regions.

    Parameters
    ----------
    code : Code
        Where to write it.
    regions : list of Region
        What `next_sources` found; they may reach beyond their arrays.
    turn : Expression
        The number of this turn.
    turns : int
        How many there are.
    """
    for region in regions:
        array, kept = region.array, kept_dims(region)
        (inner,) = (dim for dim in kept if array.strides[dim] == "unit")
        (outer,) = set(kept) - {inner}
        each = max(1, code.work.capabilities.cache_line // array.dtype.itemsize)
        across = -(-(region.extents[inner] or 1) // each)
        lines = (region.extents[outer] or 1) * across
        share = -(-lines // turns)
        if share > _MOST:
            continue
        first = code.let("line", mul(turn, share))
        with code.loop("next", share, unroll=-1) as number:
            line = code.let("line", _sum(first, number))
            row, column = divided(line, across), mul(remainder(line, across), each)
            index = place(region, *((row, column) if kept[0] == outer else (column, row)))
            code.emit(s.Instruction("prefetch", (), (), ((array, index),), code.loc))


def _sum(x: e.Expression, y: e.Expression) -> e.Expression:
    assert isinstance(y.type, DType)
    return add(x, int(y.value)) if isinstance(y, e.Const) else e.Binary("add", x, y)
