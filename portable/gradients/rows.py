"""Which rows of its arrays a launch touches, where numbers that it is given tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from portable.gradients.adjoint.host_values import value_of
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array, Vector
from portable.lang.ir.walks import all_statements

Rows = dict[Array, set[int] | None]
"""By arrays: their rows, None for all."""

_MOST: Final = 8
"""Rows that are told apart."""


def rows_touched(kernel: Kernel, given: Sequence[Any]) -> tuple[Rows, Rows]:
    """The rows that a kernel reads, and those that it writes, along the arrays' first dimensions.

    Parameters
    ----------
    kernel : Kernel
        The IR of a launch.
    given : sequence
        The arrays and numbers that its parameters are.
    """
    known = _Known(kernel, given)
    reads: Rows = {}
    writes: Rows = {}
    shapes = {
        x: y.shape for x, y in zip(kernel.parameters, given, strict=True) if isinstance(x, Array)
    }
    for x in all_statements(kernel.body):
        written = x.written()
        for array in x.touched():
            if array not in shapes:
                continue
            row = known.row(x, shapes[array])
            if array not in written or isinstance(x, s.Atomic):
                _add(reads, array, row)
            if array in written:
                _add(writes, array, row)
    return reads, writes


def _add(rows: Rows, array: Array, row: int | None) -> None:
    known = rows.setdefault(array, set())
    if known is not None:
        rows[array] = None if row is None or len(known) >= _MOST else known | {row}


class _Known:
    """What names of a kernel stand for, as far as numbers tell."""

    def __init__(self, kernel: Kernel, given: Sequence[Any]) -> None:
        pairs = list(zip(kernel.parameters, given, strict=True))
        self._shapes = {x: y.shape for x, y in pairs if isinstance(x, Array)}
        assigned = {x.var.name for x in all_statements(kernel.body) if isinstance(x, s.Assign)}
        scalars = [(x.name, y) for x, y in pairs if isinstance(y, int | np.integer)]
        self._numbers = {name: y for name, y in scalars if name not in assigned}
        lets = [x for x in all_statements(kernel.body) if isinstance(x, s.Let)]
        times = Counter(x.var.name for x in lets)
        self._lets = {x.var.name: x.value for x in lets if times[x.var.name] == 1}

    def row(self, x: s.Statement, shape: tuple[int, ...]) -> int | None:
        """The row that a statement touches, of an array of some shape."""
        if not isinstance(x, s.Load | s.Store | s.Atomic) or len(shape) < 2:
            return None
        if not isinstance(x, s.Atomic):
            moved = x.var if isinstance(x, s.Load) else x.value
            along = x.axis % len(shape) == 0 and isinstance(moved.type, Vector)
            if x.runs_on or along:
                return None
        row = value_of(x.index[0], self._leaf)
        return int(row) if row is not None and 0 <= row < shape[0] else None

    def _leaf(self, x: e.Expression) -> Any:
        match x:
            case e.Const():
                return x.value
            case e.Extent():
                return self._shapes[x.array][x.dim] if x.array in self._shapes else None
            case e.Variable(name=name) if name in self._numbers:
                return self._numbers[name]
            case e.Variable(name=name) if name in self._lets:
                return value_of(self._lets[name], self._leaf)
            case _:
                return None
