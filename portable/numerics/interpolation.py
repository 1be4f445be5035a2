"""Values between sampled ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable.errors import ShapeError
from portable.interchange.libraries import runs_where_chosen
from portable.numerics.namespaces import floating, namespace_of

__all__ = ["interp"]


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
        found = xp.reshape(_inside(xp, where, points, values), x.shape)
    if left is not None:
        found = xp.where(x < points[0], xp.full_like(found, left), found)
    if right is not None:
        found = xp.where(x > points[-1], xp.full_like(found, right), found)
    return found


def _inside(xp: Any, x: Any, points: Any, values: Any) -> Any:
    """The function of a vector `x`, constant beyond the ends."""
    last = points.shape[0] - 1
    at_end = x >= points[-1]
    if not last:
        found = xp.take(values, xp.zeros_like(x, dtype=xp.int64), axis=0)
    else:
        place = xp.searchsorted(points, x, side="right") - 1
        place = xp.clip(place, 0, last - 1)
        start, low = xp.take(points, place, axis=0), xp.take(values, place, axis=0)
        stop, high = xp.take(points, place + 1, axis=0), xp.take(values, place + 1, axis=0)
        slope = (high - low) / xp.astype(stop - start, values.dtype, copy=False)
        along = xp.astype(x - start, values.dtype, copy=False)
        # From a start, or a value there, that is infinite nothing is told: then from the other end.
        found = low + slope * along
        back = xp.astype(x - stop, values.dtype, copy=False)
        found = xp.where(xp.isnan(found), high + slope * back, found)
        # A flat part through infinities is what its ends are, and a point what its value is.
        found = xp.where((low == high) | (x == start), low, found)
        found = xp.where(x <= points[0], xp.broadcast_to(values[0], found.shape), found)
        found = xp.where(at_end, xp.broadcast_to(values[-1], found.shape), found)
    return xp.where(xp.isnan(x), xp.full_like(found, xp.nan), found)
