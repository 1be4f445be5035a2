"""Fresh names, and short ways to write what adjoints are made of."""

from __future__ import annotations

import linecache
import re
from typing import Final, NoReturn

from portable.dtypes import DType, float16, float32
from portable.errors import KernelError, Location
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.nodes import constant
from portable.lang.ir.types import ValueType, Vector, scalar_of
from portable.lang.ir.walks import all_statements

ORDERED_BY_CHANCE: Final = (
    "through what an atomic operation returns, which depends on the order of work-items"
)
"""Why a line has no gradient. The line shows the operation: `atomic_sub` of floats is an "add"."""


class Names:
    """Names that nothing in a kernel has yet.

    Parameters
    ----------
    kernel : Kernel
        Whose names are taken.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._taken = {x.name for x in (*kernel.parameters, *kernel.variables, *kernel.arrays)}
        self._taken |= {x.name for x in kernel.fragments}
        self._taken |= {v.name for x in all_statements(kernel.body) for v in x.binds()}
        self._next: dict[str, int] = {}

    def fresh(self, like: str) -> str:
        """A name that begins as another one does."""
        base = re.sub(r"_\d+$", "", like)
        count = self._next.get(base, 0)
        while True:
            name = f"{base}_{count}" if count else base
            count += 1
            if name not in self._taken:
                break
        self._next[base] = count
        self._taken.add(name)
        return name

    def variable(self, like: str, kind: ValueType) -> e.Variable:
        """A variable with such a name."""
        return e.Variable(self.fresh(like), kind)


def is_float(kind: ValueType) -> bool:
    """Whether values of a type have derivatives."""
    return scalar_of(kind).is_float


def adjoint_type(kind: ValueType) -> ValueType:
    """The type of the adjoint of a value: its own, but single precision for half."""
    scalar = scalar_of(kind)
    wide: DType = float32 if scalar is float16 else scalar
    return Vector(wide, kind.lanes) if isinstance(kind, Vector) else wide


def zero(kind: ValueType) -> e.Expression:
    """Nought of a type, false for bool."""
    return constant(0, kind)


def refuse(reason: str, at: s.Statement | Location, hint: str) -> NoReturn:
    """Raises the refusal of a line.

    Raises
    ------
    KernelError
        Always.
    """
    loc = at if isinstance(at, Location) else at.loc
    line = linecache.getline(loc.file, loc.line)
    raise KernelError(f"no gradient: {reason}", loc, hint, line)
