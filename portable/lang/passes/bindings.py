"""Names for values that a pass needs more than once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from portable.errors import Location
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir import walks
from portable.lang.ir.facts import Facts
from portable.lang.ir.types import ValueType


class Bindings:
    """Binds values just before the statement at hand.

    Expressions are pure, so that a value may be worked out earlier in the same block, and whether
    or not a `Select` around it takes it.

    Parameters
    ----------
    facts : Facts
        Of the kernel; they take in what is bound.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._made: list[s.Statement] = []
        self._count = 0
        self.loc = Location("", 0)

    def variable(self, hint: str, kind: ValueType) -> e.Variable:
        """A new name, near to `hint`."""
        self._count += 1
        return e.Variable(f"{hint}@{self._count}", kind)

    def bind(self, x: e.Expression, hint: str) -> e.Variable:
        """A new name for a value."""
        var = self.variable(hint, x.type)
        self.facts.learn(var, x)
        self._made.append(s.Let(var, x, self.loc))
        return var

    def name(self, x: e.Expression, hint: str) -> e.Expression:
        """What stands for a value wherever it is needed: itself where that costs nothing."""
        return x if _is_simple(x) else self.bind(x, hint)

    def add(self, x: s.Statement) -> None:
        """A statement that binds a new name in another way."""
        self._made.append(x)

    def taken(self) -> list[s.Statement]:
        """The bindings since the last call, to stand before the statement that uses them."""
        made, self._made = self._made, []
        return made

    def changed(self, block: s.Block, change: Callable[[e.Expression], e.Expression]) -> s.Block:
        """A block with its expressions changed, and what they need bound before each statement."""
        out: list[s.Statement] = []
        for x in block:
            self.loc = x.loc
            made = walks.map_operands(x, change)
            out += self.taken()
            out.append(walks.map_blocks(made, partial(self.changed, change=change)))
        return tuple(out)


def _is_simple(x: e.Expression) -> bool:
    match x:
        case e.Lane() | e.Splat() | e.AssumeUniform():
            return _is_simple(x.x)
        case _:
            return isinstance(x, e.Const | e.Variable | e.Extent | e.WorkItem)
