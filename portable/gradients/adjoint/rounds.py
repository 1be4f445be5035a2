"""Loops as adjoints know them: a body that runs through, and a flag that ends it."""

from __future__ import annotations

from dataclasses import dataclass, field

from portable.errors import Location
from portable.lang.ir.expressions import BINDS, BLOCK, READS, Expression, Variable
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

    var: Variable | None = field(metadata=BINDS)
    bounds: tuple[Expression, Expression, Expression] | None = field(metadata=READS)
    going: Variable | None = field(metadata=READS)
    body: Block = field(metadata=BLOCK)
    loc: Location
    unroll: int = 0
