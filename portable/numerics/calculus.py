"""Derivatives and integrals of what is known at points."""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
from array_api_compat import is_numpy_namespace

from portable import lang as kl
from portable.dtypes import dtype
from portable.errors import DTypeError, ShapeError
from portable.interchange.libraries import runs_where_chosen, takes_other_libraries
from portable.lang.kernel import kernel
from portable.namespace import device_of_arrays
from portable.numerics.namespaces import axes_of, floating, namespace_of

# Values between sampled ones.


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
        values_at = xp.reshape(_inside_range(xp, where, points, values), x.shape)
    if left is not None:
        values_at = xp.where(x < points[0], xp.full_like(values_at, left), values_at)
    if right is not None:
        values_at = xp.where(x > points[-1], xp.full_like(values_at, right), values_at)
    return values_at


def _inside_range(xp: Any, x: Any, points: Any, values: Any) -> Any:
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


# Sums of products of two sequences, one sliding over the other.

_WORKGROUP: Final = 128
_MODES: Final = ("full", "same", "valid")


@kernel
def convolved(
    long: kl.Array, short: kl.Array, out: kl.Array, first: kl.Scalar, *, ACC: Any
) -> None:
    """Elements of a convolution from number `first` on, one for each work-item."""
    i = kl.global_id(0)
    if i < out.shape[0]:
        position = i + first
        total = ACC(0)
        start = kl.maximum(0, position - long.shape[0] + 1)
        for k in range(start, kl.minimum(position + 1, short.shape[0])):
            total += kl.cast(short[k], ACC) * kl.cast(long[position - k], ACC)
        out[i] = total


@runs_where_chosen
def convolve(a: Any, v: Any, /, mode: Literal["full", "same", "valid"] = "full") -> Any:
    """The discrete convolution of two vectors.

    ``out[i] = sum over k of v[k] * a[i - k]``.

    Parameters
    ----------
    a, v : array, shape (n,) and (m,)
        Numbers, of one library and device; neither is empty.
    mode : {"full", "same", "valid"}
        All n + m - 1 elements; as many as the longer vector has, from the middle; or those for
        which the shorter one lies inside the longer one.

    Returns
    -------
    array
        Of the two's common dtype, summed directly: in at least single precision, integers exactly
        up to 64 bits, which wrap.

    Raises
    ------
    ShapeError
        For other shapes.
    DTypeError
        For bools.
    ValueError
        For another mode.

    Notes
    -----
    ``n m`` products, as NumPy's; for two long vectors ``xp.fft`` is faster, and less exact.
    """
    if mode not in _MODES:
        raise ValueError(f"mode={mode!r}; there are {', '.join(_MODES)}")
    xp = namespace_of(a, v)
    if a.ndim != 1 or v.ndim != 1 or 0 in (a.shape[0], v.shape[0]):
        raise ShapeError(
            f"convolve takes vectors that are not empty, not shapes {tuple(a.shape)} and "
            f"{tuple(v.shape)}"
        )
    for x in (a, v):
        if xp.isdtype(x.dtype, "bool"):
            raise DTypeError("convolve takes numbers, not bools; convert them first")
    if is_numpy_namespace(xp):
        return xp.convolve(a, v, mode=mode)
    kind = xp.result_type(a, v)
    a, v = xp.astype(a, kind, copy=False), xp.astype(v, kind, copy=False)
    long, short = (a, v) if a.shape[0] >= v.shape[0] else (v, a)
    return _slid(long, short, mode)


@takes_other_libraries
def _slid(long: Any, short: Any, mode: str) -> Any:
    device = device_of_arrays(long, short)
    kind = dtype(long.dtype)
    n, m = int(long.shape[0]), int(short.shape[0])
    count = {"full": n + m - 1, "same": n, "valid": n - m + 1}[mode]
    first = {"full": 0, "same": (m - 1) // 2, "valid": m - 1}[mode]
    out = device.empty((count,), kind)
    convolved[count, _WORKGROUP](long, short, out, first, ACC=kind.register)
    return out


# -- calculus --------------------------------------------------------------------------------------

_KINDS = ("real floating", "complex floating")


@runs_where_chosen
def gradient(f: Any, /, *spacing: Any, axis: int | tuple[int, ...] | None = None) -> Any:
    """Derivatives along axes: central differences inside, one-sided ones at the ends.

    Parameters
    ----------
    f : array
        Values at points of a grid, two or more along each axis.
    *spacing : float or array of shape (n,)
        Nothing: points are 1 apart. One for all axes or one for each: the distance, or the points'
        coordinates.
    axis : int, tuple of int or None
        Along which; None means all.

    Returns
    -------
    array, or tuple of arrays
        For each axis the derivative, in the shape of `f`; one array of one axis. Second-order
        inside, also of uneven points; first-order at the ends.

    Raises
    ------
    ShapeError
        For fewer than two points along an axis, or coordinates that are not as many as points.
    ValueError
        If spacings are neither one nor as many as axes.
    """
    xp = namespace_of(f)
    f = floating("gradient", xp, f, _KINDS)
    axes = axes_of(axis, f.ndim)
    steps = spacing or (1.0,)
    if len(steps) == 1:
        steps = steps * len(axes)
    if len(steps) != len(axes):
        raise ValueError(
            f"gradient along {len(axes)} axes takes as many spacings, not {len(steps)}"
        )
    slopes = tuple(_along(xp, f, a, h) for a, h in zip(axes, steps, strict=True))
    return slopes[0] if len(slopes) == 1 else slopes


def _along(xp: Any, f: Any, axis: int, spacing: Any) -> Any:
    """The derivative along one axis."""
    n = f.shape[axis]
    if n < 2:
        raise ShapeError(f"gradient takes two points or more along axis {axis}, not {n}")
    last = xp.moveaxis(f, axis, -1)
    widths = _widths(xp, last, spacing)
    slopes = (last[..., 1:] - last[..., :-1]) / widths
    parts = [slopes[..., :1], slopes[..., -1:]]
    if n > 2:
        parts.insert(1, _inside(last, slopes, widths))
    return xp.moveaxis(xp.concat(parts, axis=-1), -1, axis)


def _inside(f: Any, slopes: Any, widths: Any) -> Any:
    """The mean of the slopes on both sides, each weighted by the other's width."""
    if not getattr(widths, "shape", ()):
        return (f[..., 2:] - f[..., :-2]) / (2 * widths)
    before, after = widths[:-1], widths[1:]
    return (after * slopes[..., :-1] + before * slopes[..., 1:]) / (before + after)


def _widths(xp: Any, f: Any, spacing: Any) -> Any:
    """The distance between neighbours, or each of them, in the dtype of `f`'s real parts."""
    shape = tuple(getattr(spacing, "shape", ()))
    if not shape:
        return float(spacing)
    if shape != (f.shape[-1],):
        raise ShapeError(f"coordinates of shape {shape} for {f.shape[-1]} points")
    places = floating("gradient", xp, spacing)
    return places[1:] - places[:-1]


@runs_where_chosen
def trapezoid(y: Any, x: Any = None, /, *, dx: float = 1.0, axis: int = -1) -> Any:
    """The integral along an axis by the trapezoidal rule.

    Parameters
    ----------
    y : array
        Values at points.
    x : array, shape (n,) or that of `y`, optional
        Where the points are; by default they are `dx` apart.
    dx : float
        How far.
    axis : int
        Along which.

    Returns
    -------
    array
        The shape of `y` without the axis; integers count as floats. Fewer than two points give 0.

    Raises
    ------
    ShapeError
        If there are not as many coordinates as points.
    """
    xp = namespace_of(y, x)
    y = floating("trapezoid", xp, y, _KINDS)
    (axis,) = axes_of(axis, y.ndim)
    last = xp.moveaxis(y, axis, -1)
    means = (last[..., 1:] + last[..., :-1]) / 2
    if x is None:
        return xp.asarray(xp.sum(means, axis=-1) * dx)
    x = floating("trapezoid", xp, x)
    if x.ndim > 1:
        x = xp.moveaxis(x, axis, -1)
    if x.shape[-1] != last.shape[-1]:
        raise ShapeError(f"{x.shape[-1]} coordinates for {last.shape[-1]} points")
    return xp.asarray(xp.sum(means * (x[..., 1:] - x[..., :-1]), axis=-1))
