"""Exact arithmetic of registers: NumPy arrays with one row per work-item, a column per lane.

A scalar value has shape ``(work-items,)``, a vector ``(work-items, lanes)``. Values are never
changed in place once bound. Floating-point warnings are silenced by `portable.sim.run`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from portable.dtypes import NARROW, DType
from portable.lang.ir.expressions import BinaryOp, CompareOp, UnaryOp

Value = NDArray[Any]
"""One value of a workgroup: a row per work-item."""


def _unsigned(x: Value) -> Value:
    return x.view(f"u{x.dtype.itemsize}") if x.dtype.kind == "i" else x


def _count(y: Value) -> Value:
    """A shift count modulo the width, as unsigned."""
    u = _unsigned(y)
    count: Value = u & u.dtype.type(8 * u.dtype.itemsize - 1)
    return count


def _shift_left(x: Value, y: Value) -> Value:
    return (_unsigned(x) << _count(y)).view(x.dtype)


def _shift_right(x: Value, y: Value) -> Value:
    shifted: Value = x >> _count(y).astype(x.dtype)
    return shifted


def _quotient(x: Value, y: Value) -> Value:
    """Truncated toward zero."""
    floor = np.floor_divide(x, y)
    quotient: Value = floor + ((np.fmod(x, y) != 0) & ((x < 0) != (y < 0))).astype(x.dtype)
    return quotient


BINARY: Final[dict[BinaryOp, Callable[[Value, Value], Value]]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "quot": _quotient,
    "rem": np.fmod,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": _shift_left,
    "shr": _shift_right,
    "min": np.minimum,
    "max": np.maximum,
}
"""NumPy's integer division by zero gives 0 and floors, and its minimum hands NaN on, as ours."""

UNARY: Final[dict[UnaryOp, Callable[[Value], Value]]] = {
    "neg": np.negative,
    "not": np.logical_not,
    "invert": np.invert,
}

COMPARE: Final[dict[CompareOp, Callable[[Value, Value], Value]]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def cast(x: Value, target: DType, storage: DType | None = None) -> Value:
    """Convert to a register type, then narrow as if stored to and loaded from `storage`.

    Parameters
    ----------
    x : numpy.ndarray
    target : DType
    storage : DType, optional
    """
    if x.dtype.kind == "f" and target.is_integer:
        out = _saturated(x, target)
    else:
        out = x.astype(target.numpy)
    if storage is None:
        return out
    widest = x if x.dtype.kind == "f" and storage.is_float else out
    return stored(widest, storage).astype(target.numpy)


def stored(x: Value, storage: DType) -> Value:
    """Numbers as memory holds them, floats rounded once.

    ml_dtypes makes singles of doubles first: of 13 bits of fraction exactly, the last of which is
    set where any are lost, so that rounding them again is as rounding once.
    """
    if x.dtype == np.float64 and storage in NARROW:
        bits, lost = x.view(np.uint64), np.uint64(2**39 - 1)
        x = ((bits | ((bits & lost) + lost)) & ~lost).view(np.float64)
    return x.astype(storage.numpy, copy=False)


def _saturated(x: Value, target: DType) -> Value:
    """Truncate toward zero; beyond the target's range its ends; 0 for NaN."""
    info = np.iinfo(target.numpy)
    low, beyond = x.dtype.type(info.min), x.dtype.type(float(info.max) + 1.0)
    whole = np.trunc(x)
    out = np.where((whole > low) & (whole < beyond), whole, 0).astype(target.numpy)
    out[whole <= low] = info.min
    out[whole >= beyond] = info.max
    return out


def select(condition: Value, x: Value, y: Value) -> Value:
    """`x` where `condition`, else `y`; a scalar condition covers all lanes.

    Parameters
    ----------
    condition : numpy.ndarray of bool
    x, y : numpy.ndarray
    """
    if condition.ndim < x.ndim:
        condition = condition[:, None]
    return np.where(condition, x, y)


# The set of work-items that take part in what is being executed.


class Active:
    """An immutable set of work-items of one workgroup.

    Attributes
    ----------
    mask : numpy.ndarray of bool
        Membership by linear local id.
    ids : numpy.ndarray of int
        The members in rising order.
    count : int
        How many there are.
    full : bool
        Whether all work-items of the workgroup are members.
    """

    __slots__ = ("count", "full", "ids", "mask")

    def __init__(self, mask: Value) -> None:
        self.mask = mask
        self.ids: Value = mask.nonzero()[0]
        self.count = int(self.ids.size)
        self.full = self.count == mask.size

    def where(self, condition: Value) -> Active:
        """The members for which the condition holds."""
        return self._narrowed(self.mask & condition)

    def unless(self, condition: Value) -> Active:
        """The members for which the condition does not hold."""
        return self._narrowed(self.mask & ~condition)

    def _narrowed(self, mask: Value) -> Active:
        smaller = Active(mask)
        return self if smaller.count == self.count else smaller

    def joined(self, mask: Value | None) -> Active:
        """The members and those of another mask (None: of none)."""
        return self if mask is None else Active(self.mask | mask)

    def pick(self, x: Any) -> Any:
        """The members' values of an array with one row per work-item."""
        return x if self.full else x[self.ids]

    def spread(self, x: Value) -> Value:
        """An array with one row per work-item from the members' values; the others' are zero."""
        if self.full:
            return x
        out = np.zeros((self.mask.size, *x.shape[1:]), x.dtype)
        out[self.ids] = x
        return out


class LoopMasks:
    """Who has left the innermost loop, and who has only left its present round."""

    __slots__ = ("left", "resting")

    def __init__(self) -> None:
        self.left: Value | None = None
        self.resting: Value | None = None

    def leave(self, members: Active) -> None:
        """These have finished the loop."""
        self.left = members.mask if self.left is None else self.left | members.mask

    def rest(self, members: Active) -> None:
        """These sit out until the next round."""
        self.resting = members.mask if self.resting is None else self.resting | members.mask

    def next_round(self, remaining: Active) -> Active:
        """Who takes part in the next round, given who came to the end of this one."""
        resting, self.resting = self.resting, None
        return remaining.joined(resting)
