"""What depends on the parameters with gradients, and which adjoints need a variable."""

from __future__ import annotations

from portable.gradients.adjoint.names import is_float
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array
from portable.lang.ir.walks import all_statements, names_in, operands, reads


class Activity:
    """The names and arrays whose values depend on those that gradients are asked for.

    Parameters
    ----------
    kernel : Kernel
        A flat program.
    sources : set of str
        The parameters with gradients, by name.

    Attributes
    ----------
    names : set of str
        Floats that depend on one of them.
    spread : set of str
        Names that are used in another block than that in which they are bound.
    """

    def __init__(self, kernel: Kernel, sources: set[str]) -> None:
        self.names = {
            x.name for x in kernel.parameters if isinstance(x, e.Variable) and x.name in sources
        }
        self._arrays = {x for x in kernel.parameters if isinstance(x, Array) and x.name in sources}
        self.spread: set[str] = set()
        _spread(kernel.body, {x.name for x in kernel.parameters}, set(), self.spread)
        changed = True
        while changed:
            changed = False
            for x in all_statements(kernel.body):
                changed |= self._learn(x)

    def depends(self, x: e.Expression | None) -> bool:
        """Whether a float does."""
        return x is not None and is_float(x.type) and not self.names.isdisjoint(names_in(x))

    def holds(self, array: Array) -> bool:
        """Whether something in an array does."""
        return array in self._arrays

    def _learn(self, x: s.Statement) -> bool:
        match x:
            case s.Store():
                return self._add_array(x.array, x.value)
            case s.Atomic():
                changed = self._add_array(x.array, x.value)
                active = x.array in self._arrays
                return self._add(x.var, active) or changed
            case s.Load():
                return self._add(x.var, x.array in self._arrays)
            case _:
                active = any(self.depends(y) for y in reads(x))
                return any(self._add(var, active) for var in (*x.binds(), *x.sets()))

    def _add_array(self, array: Array, value: e.Expression | None) -> bool:
        if array in self._arrays or not self.depends(value) or not _real(array):
            return False
        self._arrays.add(array)
        return True

    def _add(self, var: e.Variable | None, active: bool) -> bool:
        if var is None or not active or var.name in self.names or not is_float(var.type):
            return False
        self.names.add(var.name)
        return True


def _real(array: Array) -> bool:
    return array.dtype.real.is_float


def _spread(block: s.Block, bound: set[str], outer: set[str], names: set[str]) -> None:
    """Adds the names of outer blocks that a block uses; its own grow with it."""
    for x in block:
        for y in operands(x):
            names |= names_in(y) & outer - bound
        for inner in x.blocks():
            _spread(inner, set(), outer | bound, names)
        bound |= {v.name for v in x.binds()}
