"""Where the loop over vectors ends and that over what is left begins: what they do must be alike.

A body of `kl.vector_range` is translated twice. A variable that the first makes a vector of would
silently take a number of the second in all of its lanes: that is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from portable.errors import Location
from portable.lang.frontend.values import Value
from portable.lang.ir.expressions import Variable
from portable.lang.ir.kernel import subexpressions
from portable.lang.ir.types import lanes_of

_Place = tuple[Location, str, int]


@dataclass
class Seam:
    """What the first body of one loop does with vectors and numbers, held against the second.

    Attributes
    ----------
    lanes : int
        Of the first body.
    names : collection of str
        The names from before the loop.
    """

    lanes: int
    names: Collection[str]
    _second: bool = False
    _met: dict[_Place, set[int]] = field(default_factory=dict)
    _last: tuple[Location, str] | None = None
    _order: int = 0

    def cross(self) -> None:
        """The second body begins."""
        self._second, self._last = True, None

    def refused(self, location: Location, values: Collection[Value]) -> str:
        """What is wrong where values meet; nothing if the first body did the same there."""
        vectors = [x for x in values if x.lanes == self.lanes]
        if not vectors:
            return ""
        position = self._place(location)
        spread = {number for number, x in enumerate(values) if x.lanes == 1}
        if not self._second:
            self._met.setdefault(position, set()).update(spread)
        elif position in self._met and spread - self._met[position]:
            return f"{self._name(vectors[0])} has {self.lanes} lanes, and here takes one number"
        return ""

    def _place(self, location: Location) -> _Place:
        """Operations in one place, such as those of ``a * b + c``, differ by their order."""
        calls = location.calls
        self._order = self._order + 1 if (location, calls) == self._last else 0
        self._last = location, calls
        return location, calls, self._order

    def _name(self, vector: Value) -> str:
        """The user's name of a variable in it, of which the generated program may have copies."""
        inner = (x for x in subexpressions(vector.expr) if isinstance(x, Variable))
        held = [x.name for x in inner if lanes_of(x.type) == self.lanes]
        for name in self.names:
            if any(re.fullmatch(re.escape(name) + r"(_\d+)*", x) for x in held):
                return name
        return "a vector"
