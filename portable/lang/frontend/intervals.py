"""Bounds of integer expressions, to know which can never be negative.

Work-item indices, extents and padded sizes stay a margin below 2^31 in kernels with 32-bit indices
(see `portable.lang.launch`), so that sums with small constants do not wrap either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from portable.dtypes import int64, uint64
from portable.lang.ir import expressions as e
from portable.lang.ir.types import ValueType, Vector

__all__ = ["INDEX_MARGIN", "Interval", "interval"]

INDEX_MARGIN = 4096
"""How far below 2^31 every index of a kernel with 32-bit indices stays."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The integers from `low` to `high`, both included."""

    low: int
    high: int


_INDEX32 = Interval(0, 2**31 - INDEX_MARGIN)
_INDEX64 = Interval(0, 2**62)


def _whole(kind: ValueType) -> Interval:
    if isinstance(kind, Vector) or not kind.is_integer:
        return Interval(-(2**64), 2**64)
    if kind.kind == "u":
        return Interval(0, 2**kind.bits - 1)
    return Interval(-(2 ** (kind.bits - 1)), 2 ** (kind.bits - 1) - 1)


def interval(x: e.Expression, known: Mapping[e.Variable, Interval]) -> Interval:
    """Bounds of an integer scalar expression; its type's whole range where nothing is known."""
    whole = _whole(x.type)
    found = _interval(x, known)
    inside = found is not None and whole.low <= found.low and found.high <= whole.high
    return found if inside and found is not None else whole


def _interval(x: e.Expression, known: Mapping[e.Variable, Interval]) -> Interval | None:
    match x:
        case e.Const(value=int() as value):
            return Interval(value, value)
        case e.Variable():
            return known.get(x)
        case e.WorkItem() | e.Extent():
            return _INDEX64 if x.type in (int64, uint64) else _INDEX32
        case e.Binary():
            return _binary(x.op, interval(x.x, known), interval(x.y, known))
        case e.Cast() if _between_integers(x):
            return interval(x.x, known)
        case e.Select():
            a, b = interval(x.x, known), interval(x.y, known)
            return Interval(min(a.low, b.low), max(a.high, b.high))
        case e.AssumeUniform():
            return interval(x.x, known)
        case _:
            return None


def _between_integers(x: e.Expression) -> bool:
    return (
        isinstance(x, e.Cast)
        and x.storage is None
        and not isinstance(x.x.type, Vector)
        and x.x.type.is_integer
    )


def _binary(op: e.BinaryOp, a: Interval, b: Interval) -> Interval | None:
    corners: list[int]
    match op:
        case "add":
            return Interval(a.low + b.low, a.high + b.high)
        case "sub":
            return Interval(a.low - b.high, a.high - b.low)
        case "mul":
            corners = [a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high]
            return Interval(min(corners), max(corners))
        case "floordiv" if a.low >= 0 and b.low >= 1:
            return Interval(a.low // b.high, a.high // b.low)
        case "mod" if b.low >= 1:
            return Interval(0, min(a.high, b.high - 1) if a.low >= 0 else b.high - 1)
        case "min":
            return Interval(min(a.low, b.low), min(a.high, b.high))
        case "max":
            return Interval(max(a.low, b.low), max(a.high, b.high))
        case "and" if a.low >= 0 or b.low >= 0:
            return Interval(0, min(x.high for x in (a, b) if x.low >= 0))
        case "shr" if a.low >= 0:
            return Interval(0, a.high)
        case _:
            return None
