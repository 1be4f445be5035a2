"""Integers of kernels, worked out in Python where all that they depend on is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array, Vector
from portable.sim.values import BINARY, COMPARE, UNARY

Known = Any
"""A number, or one for each work-item; None where it is not known."""

_MOST_STEPS: Final = 20_000
_DIVIDING: Final = ("div", "floordiv", "mod", "quot", "rem")
_BINARY: Final[dict[Any, Any]] = {**BINARY, "shl": np.left_shift, "shr": np.right_shift}


def value_of(x: e.Expression, leaf: Callable[[e.Expression], Known]) -> Known:
    """An integer or bool; `leaf` gives numbers, variables, places and extents."""
    match x:
        case e.Cast() if not isinstance(x.type, Vector) and x.type.is_integer:
            return value_of(x.x, leaf)
        case e.AssumeUniform():
            return value_of(x.x, leaf)
        case e.Unary(op="neg" | "not" | "invert"):
            inner = value_of(x.x, leaf)
            if inner is None:
                return None
            return UNARY[x.op](inner)
        case e.Binary() | e.Compare():
            return _binary(x, value_of(x.x, leaf), value_of(x.y, leaf))
        case e.Select():
            parts = [value_of(y, leaf) for y in (x.condition, x.x, x.y)]
            return None if any(p is None for p in parts) else np.where(*parts)
        case _:
            return leaf(x)


def _binary(x: e.Binary | e.Compare, a: Known, b: Known) -> Known:
    if a is None or b is None:
        return None
    if isinstance(x, e.Compare):
        return COMPARE[x.op](a, b)
    return None if x.op in _DIVIDING and np.any(b == 0) else _BINARY[x.op](a, b)


def run_on_host(
    measure: Kernel, extents: Mapping[tuple[Array, int], int], numbers: Mapping[str, Any]
) -> dict[int, int] | None:
    """The greatest of what a kernel counts, by place, if that depends on shapes and numbers alone.

    Parameters
    ----------
    measure : Kernel
        Whose only results are atomic maxima.
    extents : mapping
        Of its arrays, by axis.
    numbers : mapping
        Its scalars, by name.

    Returns
    -------
    dict, or None where other things decide it, or it takes long.
    """
    run = _Run(extents, numbers)
    try:
        run.block(measure.body)
    except _UnknownError:
        return None
    return run.counts


class _UnknownError(Exception):
    """Something that Python does not know."""


class _Run:
    def __init__(
        self, extents: Mapping[tuple[Array, int], int], numbers: Mapping[str, Any]
    ) -> None:
        self.counts: dict[int, int] = {}
        self._extents = extents
        self._values = dict(numbers)
        self._steps = 0

    def block(self, block: s.Block) -> None:
        """Runs a block."""
        self._steps += len(block)
        if self._steps > _MOST_STEPS:
            raise _UnknownError
        for x in block:
            match x:
                case s.Let() | s.Assign():
                    self._values[x.var.name] = self._value(x.value)
                case s.If():
                    self.block(x.then if self._value(x.condition) else x.orelse)
                case s.For():
                    for number in range(*(self._value(y) for y in (x.start, x.stop, x.step))):
                        self._values[x.var.name] = number
                        self.block(x.body)
                case s.Atomic(op="max", index=(at,), value=value) if value is not None:
                    place = self._value(at)
                    self.counts[place] = max(self._value(value), self.counts.get(place, 0))
                case _:
                    raise _UnknownError

    def _value(self, x: e.Expression) -> int:
        value = value_of(x, self._leaf)
        if value is None:
            raise _UnknownError
        return int(value)

    def _leaf(self, x: e.Expression) -> Known:
        match x:
            case e.Const():
                return x.value
            case e.Variable():
                return self._values.get(x.name)
            case e.Extent():
                return self._extents.get((x.array, x.dim))
            case _:
                return None
