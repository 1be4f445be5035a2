"""Derivatives and integrals of what is known at points."""

from __future__ import annotations

from typing import Any

from portable.errors import ShapeError
from portable.interchange.libraries import runs_where_chosen
from portable.numerics.namespaces import axes_of, floating, namespace_of

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
