"""Values between sampled ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable.errors import ShapeError
from portable.interchange.libraries import runs_where_chosen
from portable.numerics.namespaces import floating, namespace_of


@runs_where_chosen
def interp(
    x: Any, points: Any, values: Any, /, *, left: float | None = None, right: float | None = None
) -> Any:
    """A piecewise linear function through given points.

    Parameters
    ----------
    x : array
        Where to evaluate it; real numbers, any shape.
    points : array, shape (n,)
        Where its values are given, in ascending order; at least one.
    values : array, shape (n,)
        The values there, real or complex.
    left, right : float, optional
        What it is beyond the first and the last point; the values there by default.

    Returns
    -------
    array
        The shape of `x`, of the dtype of `values` (integers as floats); NaN where `x` is.

    Raises
    ------
    ShapeError
        Unless `points` and `values` are vectors of the same length, at least 1.
    DTypeError
        For `x` or `points` that are complex.
    """
    xp = namespace_of(x, points, values)
    if points.ndim != 1 or tuple(points.shape) != tuple(values.shape) or not points.shape[0]:
        raise ShapeError(
            f"interp takes points and values of one shape (n,), not {tuple(points.shape)} and "
            f"{tuple(values.shape)}"
        )
    values = floating("interp", xp, values, ("real floating", "complex floating"))
    x, points = floating("interp", xp, x), floating("interp", xp, points)
    kind = xp.result_type(x, points)
    x, points = xp.astype(x, kind, copy=False), xp.astype(points, kind, copy=False)
    where = xp.reshape(x, (-1,))
    with np.errstate(invalid="ignore", divide="ignore"):  # as NumPy's own, which is silent
        values_at = xp.reshape(_inside(xp, where, points, values), x.shape)
    if left is not None:
        values_at = xp.where(x < points[0], xp.full_like(values_at, left), values_at)
    if right is not None:
        values_at = xp.where(x > points[-1], xp.full_like(values_at, right), values_at)
    return values_at


def _inside(xp: Any, x: Any, points: Any, values: Any) -> Any:
    """The function of a vector `x`, constant beyond the ends."""
    last = points.shape[0] - 1
    at_end = x >= points[-1]
    if not last:
        values_at = xp.take(values, xp.zeros_like(x, dtype=xp.int64), axis=0)
    else:
        interval = xp.searchsorted(points, x, side="right") - 1
        interval = xp.clip(interval, 0, last - 1)
        start, low = xp.take(points, interval, axis=0), xp.take(values, interval, axis=0)
        stop, high = xp.take(points, interval + 1, axis=0), xp.take(values, interval + 1, axis=0)
        slope = (high - low) / xp.astype(stop - start, values.dtype, copy=False)
        along = xp.astype(x - start, values.dtype, copy=False)
        # From a start, or a value there, that is infinite nothing is told: then from the other end.
        values_at = low + slope * along
        back = xp.astype(x - stop, values.dtype, copy=False)
        values_at = xp.where(xp.isnan(values_at), high + slope * back, values_at)
        # A flat part through infinities is what its ends are, and a point what its value is.
        values_at = xp.where((low == high) | (x == start), low, values_at)
        values_at = xp.where(x <= points[0], xp.broadcast_to(values[0], values_at.shape), values_at)
        values_at = xp.where(at_end, xp.broadcast_to(values[-1], values_at.shape), values_at)
    return xp.where(xp.isnan(x), xp.full_like(values_at, xp.nan), values_at)
