"""The pipelined mainloop: it multiplies tiles while those of later steps are being copied."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from portable.errors import Location
from portable.lang.ir import statements as s
from portable.lang.ir.expressions import BINDS, BLOCK, READS, Const, Expression, Variable
from portable.lang.ir.types import Scope


@dataclass(frozen=True, slots=True)
class Pipeline(s.Statement):
    """For each step from `start` to `stop`: copies for a later one, and this one's product.

    Tiles pass through slots of local memory, a step's lying in that of its number modulo `stages`.
    The statement owns what keeps them apart: commits of groups of copies, waits and barriers
    (`in_rounds` spells them out). A device may do it otherwise, as long as each product finds its
    tiles and no slot is filled before its product is over: rotate the loop, or have warps that copy
    and others that multiply.

    Attributes
    ----------
    var : Variable
        The step.
    start, stop : Expression
        The first step, and the one after the last.
    copies : tuple of statements
        Those of the tiles of step ``var + ahead``, and what they need.
    product : tuple of statements
        One `Multiply`, what it needs before it, and behind it what is done at once with its sums.
    stages : int
        Slots.
    ahead : int
        Steps by which copies are ahead of products, fewer than `stages`. The tiles of the first so
        many steps are asked for before, a group each. With 0 each step waits for its own, unless
        other warps copy.
    rotated : bool
        Whether the next step's first operands may be loaded from their tiles before this step's
        last are multiplied.
    loc : Location
    """

    reached_by: ClassVar[Scope] = "workgroup"

    var: Variable = field(metadata=BINDS)
    start: Expression = field(metadata=READS)
    stop: Expression = field(metadata=READS)
    copies: s.Block = field(metadata=BLOCK)
    product: s.Block = field(metadata=BLOCK)
    stages: int
    ahead: int
    rotated: bool
    loc: Location

    @property
    def step(self) -> Const:
        """From one round to the next."""
        return Const(1, self.start.type)  # type: ignore[arg-type]

    @property
    def body(self) -> s.Block:
        """What a round does, but for the waiting."""
        return (*self.copies, *self.product)

    @property
    def multiply(self) -> s.Multiply:
        """The multiplication."""
        (multiply,) = (x for x in self.product if isinstance(x, s.Multiply))
        return multiply

    @property
    def waits(self) -> s.Block:
        """What a round begins with, where copies are ahead: its tiles are there, for everyone."""
        return _arrived(self.ahead - 1, self.loc) if self.ahead else ()


def in_rounds(x: Pipeline, *, early: bool = False) -> s.For:
    """The loop as it is meant.

    Parameters
    ----------
    x : Pipeline
    early : bool
        Whether a product runs on its own, so that it had better start before the copies beside it.
    """
    copies = (*x.copies, s.CopyCommit(x.loc))
    body = (*x.waits, *(_early(copies, x.product) if early else (*copies, *x.product)))
    if not x.ahead:
        body = (*copies, *_arrived(0, x.loc), *x.product)
    if x.stages == 1:
        body = (*body, s.Barrier(x.loc))
    return rounds_of(x, body)


def rounds_of(x: Pipeline, body: s.Block) -> s.For:
    """A loop over the steps, with a body of its own."""
    return s.For(x.var, x.start, x.stop, x.step, body, x.loc)


def _arrived(pending: int, loc: Location) -> s.Block:
    return s.CopyWait(pending, loc), s.Barrier(loc)


def _early(copies: s.Block, product: s.Block) -> s.Block:
    """The product first, behind what is only bound for either."""
    if not all(isinstance(x, s.Let | s.CopyTile | s.CopyCommit) for x in copies):
        return (*product, *copies)
    lets = tuple(x for x in copies if isinstance(x, s.Let))
    return (*lets, *product, *(x for x in copies if not isinstance(x, s.Let)))
