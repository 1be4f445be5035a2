"""Exact arithmetic of registers: NumPy arrays with one row per work-item, a column per lane.

A scalar value has shape ``(work-items,)``, a vector ``(work-items, lanes)``. Values are never
changed in place once bound. Floating-point warnings are silenced by `portable.sim.run`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from portable.dtypes import DType
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
    return out.astype(storage.numpy).astype(target.numpy)


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
