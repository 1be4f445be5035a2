"""Diagonals of matrices, and their sums."""

from __future__ import annotations

from typing import Any

from portable.array.base.operations import ArrayT
from portable.array.functions.statistics import sum as summed
from portable.errors import ShapeError
from portable.primitives.maps.engine import check_arrays
from portable.recording import taped


@taped
def diagonal(x: ArrayT, /, *, offset: int = 0) -> ArrayT:
    """The diagonals of matrices, a view.

    Parameters
    ----------
    x : Array
        Matrices in its last two dimensions.
    offset : int
        Which diagonal: so many above the main one.

    Returns
    -------
    Array
        With the diagonals along its last axis, empty where matrices have none so far away.

    Raises
    ------
    ShapeError
        For fewer than two dimensions.
    """
    check_arrays("diagonal", x)
    if x.ndim < 2:
        raise ShapeError(f"diagonal takes matrices, not an array of shape {x.shape}")
    rows, columns = x.shape[-2:]
    down, right = max(-offset, 0), max(offset, 0)
    count = max(min(rows - down, columns - right), 0)
    start = x.offset + (down * x.strides[-2] + right * x.strides[-1] if count else 0)
    step = x.strides[-2] + x.strides[-1]
    return x.viewed((*x.shape[:-2], count), (*x.strides[:-2], step), start)


@taped
def trace(x: ArrayT, /, *, offset: int = 0, dtype: Any = None) -> ArrayT:
    """The sums of diagonals.

    Parameters
    ----------
    x : Array
        Matrices in its last two dimensions.
    offset : int
        Which diagonal: so many above the main one.
    dtype : dtype, optional
        Of the result, as of `portable.array.sum`.
    """
    check_arrays("trace", x)
    return summed(diagonal(x, offset=offset), axis=-1, dtype=dtype)
