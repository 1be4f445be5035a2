"""How far apart in memory neighbouring work-items read and write, along dimension 0."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array, Vector
from portable.lang.ir.walk import all_statements, children

__all__ = ["Neighbours"]

_STEPS: Final = ("local_id", "global_id", "local_linear_id", "sub_group_id")


class Neighbours:
    """By how much integers grow from one work-item to the next along dimension 0.

    Parameters
    ----------
    kernel : Kernel
        Each of whose bindings has a name of its own.
    varying : set of str
        The names whose values differ among work-items.
    """

    def __init__(self, kernel: Kernel, varying: set[str]) -> None:
        self._varying = varying
        self._values: dict[str, e.Expression] = {}
        for x in all_statements(kernel.body):
            if isinstance(x, s.Let):
                self._values[x.var.name] = x.value
            elif isinstance(x, s.For):
                self._values[x.var.name] = e.Binary("add", x.start, x.step)

    def growth(self, x: e.Expression) -> int | None:
        """By how much a value grows from one work-item to the next; None where nobody knows."""
        match x:
            case e.Const() | e.Extent() | e.Stride() | e.AssumeUniform():
                return 0
            case e.WorkItem():
                return int(x.dim == 0 and x.word in _STEPS)
            case e.Variable() if x.name not in self._varying:
                return 0
            case e.Variable():
                value = self._values.get(x.name)
                return None if value is None else self.growth(value)
            case e.Cast():
                return self.growth(x.x)
            case e.Binary(op="add" | "sub" | "mul" | "shl"):
                return self._binary(x)
            case _:
                return 0 if all(self.growth(y) == 0 for y in children(x)) else None

    def _binary(self, x: e.Binary) -> int | None:
        a, b = self.growth(x.x), self.growth(x.y)
        if a is None or b is None:
            return None
        match x.op:
            case "add":
                return a + b
            case "sub":
                return a - b
            case _ if a == b == 0:
                return 0
            case "mul" if isinstance(x.x, e.Const) or isinstance(x.y, e.Const):
                factor, growth = (x.x, b) if isinstance(x.x, e.Const) else (x.y, a)
                return int(factor.value) * growth if isinstance(factor, e.Const) else None
            case "shl" if isinstance(x.y, e.Const):
                return a << int(x.y.value)
            case _:
                return None

    def steps(self, block: s.Block) -> Iterable[int | None]:
        """Elements between what neighbours read or write, of each load and store of a block."""
        for x in all_statements(block):
            if isinstance(x, s.Load | s.Store) and x.array.space != "private":
                kind = x.var.type if isinstance(x, s.Load) else x.value.type
                yield None if isinstance(kind, Vector) else self._step(x.array, x.index)

    def _step(self, array: Array, index: tuple[e.Expression, ...]) -> int | None:
        total = 0
        for dim, at in enumerate(index):
            growth = self.growth(at)
            if growth is None:
                return None
            stride = _stride(array, dim)
            if stride is None and growth != 0:
                return None
            total += growth * (stride or 0)
        return total


def _stride(array: Array, dim: int) -> int | None:
    """The elements between neighbours along a dimension, where it is known."""
    if array.layout is not None:
        return None if array.layout.swizzle else array.layout.strides[dim]
    return {"unit": 1, "zero": 0}.get(array.strides[dim])
