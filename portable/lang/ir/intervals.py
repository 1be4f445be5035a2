"""Bounds of integer expressions, to know which can neither be negative nor wrap.

Work-item indices, extents and padded sizes stay a margin below 2^31 in kernels with 32-bit indices
(see `portable.lang.launch`), so that sums with small constants do not wrap either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from portable.dtypes import DType, int64, uint64
from portable.lang.ir import expressions as e
from portable.lang.ir.types import ValueType, Vector

__all__ = [
    "INDEX_MARGIN",
    "Interval",
    "Leaf",
    "exact",
    "index_limit",
    "interval",
    "is_integer",
    "known_variables",
    "whole",
]

INDEX_MARGIN: Final = 4096
"""How far below 2^31 every index of a kernel with 32-bit indices stays."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The integers from `low` to `high`, both included."""

    low: int
    high: int

    def inside(self, other: Interval) -> bool:
        """Whether all of this lies in `other`."""
        return other.low <= self.low and self.high <= other.high


Leaf = Callable[[e.Variable | e.WorkItem | e.Extent], Interval | None]
"""What is known of a variable, a work-item's place or an extent; None where nothing is."""


@cache
def whole(kind: DType) -> Interval:
    """The range of an integer type."""
    if kind.kind == "u":
        return Interval(0, 2**kind.bits - 1)
    return Interval(-(2 ** (kind.bits - 1)), 2 ** (kind.bits - 1) - 1)


def index_limit(kind: DType) -> int:
    """The greatest index, extent or padded size in kernels of an index type."""
    return 2**62 if kind in (int64, uint64) else 2**31 - INDEX_MARGIN


def is_integer(kind: ValueType) -> bool:
    """Whether this is the type of an integer scalar."""
    return not isinstance(kind, Vector) and kind.is_integer


def known_variables(known: Mapping[e.Variable, Interval]) -> Leaf:
    """A leaf that looks variables up and bounds places and extents by the index limit."""

    def leaf(x: e.Variable | e.WorkItem | e.Extent) -> Interval | None:
        return known.get(x) if isinstance(x, e.Variable) else Interval(0, index_limit(x.type))

    return leaf


def interval(x: e.Expression, leaf: Leaf) -> Interval:
    """Bounds of an integer scalar, wrapped to its type; the type's range where nothing is known."""
    kind = x.type
    assert isinstance(kind, DType)
    return _wrapped(x, leaf, kind)


def _wrapped(x: e.Expression, leaf: Leaf, kind: DType) -> Interval:
    bounds, limits = _exact(x, leaf, kind) if kind.is_integer else None, whole(kind)
    return bounds if bounds is not None and bounds.inside(limits) else limits


def exact(x: e.Expression, leaf: Leaf) -> Interval | None:
    """Bounds of the outermost operation without wrapping; None where nothing is known."""
    kind = x.type
    return _exact(x, leaf, kind) if isinstance(kind, DType) and kind.is_integer else None


def _exact(x: e.Expression, leaf: Leaf, kind: DType) -> Interval | None:
    """The same of an integer of a type, which that of most operands is as well."""
    match x:
        case e.Const():
            return Interval(int(x.value), int(x.value))
        case e.Variable() | e.WorkItem() | e.Extent():
            return leaf(x)
        case e.Binary():
            return _binary(x.op, _wrapped(x.x, leaf, kind), _wrapped(x.y, leaf, kind))
        case e.Unary(op="neg"):
            inner = _wrapped(x.x, leaf, kind)
            return Interval(-inner.high, -inner.low)
        case e.Select():
            a, b = _wrapped(x.x, leaf, kind), _wrapped(x.y, leaf, kind)
            return Interval(min(a.low, b.low), max(a.high, b.high))
        case e.Cast() if is_integer(x.x.type) and x.storage is None:
            return interval(x.x, leaf)
        case e.AssumeUniform():
            return _wrapped(x.x, leaf, kind)
        case _:
            return None


def _hull(corners: list[int]) -> Interval:
    return Interval(min(corners), max(corners))


def _quotient(x: int, y: int) -> int:
    """``x / y``, truncated; `y` is positive."""
    return x // y if x >= 0 else -(-x // y)


def _binary(op: e.BinaryOp, a: Interval, b: Interval) -> Interval | None:
    match op:
        case "add":
            return Interval(a.low + b.low, a.high + b.high)
        case "sub":
            return Interval(a.low - b.high, a.high - b.low)
        case "mul":
            return _hull([a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high])
        case "floordiv" if b.low >= 1:
            return _hull([a.low // b.low, a.low // b.high, a.high // b.low, a.high // b.high])
        case "mod" if b.low >= 1:
            return Interval(0, min(a.high, b.high - 1) if a.low >= 0 else b.high - 1)
        case "quot" if b.low >= 1:
            return _hull([_quotient(x, y) for x in (a.low, a.high) for y in (b.low, b.high)])
        case "rem" if b.low >= 1:
            most = b.high - 1
            return Interval(max(min(a.low, 0), -most), min(max(a.high, 0), most))
        case "min":
            return Interval(min(a.low, b.low), min(a.high, b.high))
        case "max":
            return Interval(max(a.low, b.low), max(a.high, b.high))
        case "and" if a.low >= 0 or b.low >= 0:
            return Interval(0, min(x.high for x in (a, b) if x.low >= 0))
        case "shr" if b.low == b.high and 0 <= b.low < 32:
            return Interval(a.low >> b.low, a.high >> b.low)
        case "shr" if a.low >= 0:
            return Interval(0, a.high)
        case "shl" if b.low == b.high and 0 <= b.low < 32 and a.low >= 0:
            return Interval(a.low << b.low, a.high << b.low)
        case _:
            return None
