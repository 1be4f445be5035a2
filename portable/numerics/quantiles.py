"""Medians and quantiles, from sorted elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final, Literal

import numpy as np
from array_api_compat import is_numpy_namespace

from portable import namespace
from portable.interchange.libraries import runs_where_chosen
from portable.numerics.namespaces import axes_of, floating, is_numpys, like, namespace_of

Axis = int | Sequence[int] | None
Method = Literal["linear", "lower", "higher", "midpoint", "nearest"]

_FRACTIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "linear": lambda part: part,
    "lower": np.zeros_like,
    "higher": lambda part: np.where(part > 0, 1.0, 0.0),
    "midpoint": lambda part: np.where(part > 0, 0.5, 0.0),
}
"""Where between two neighbours a quantile lies, from 0 to 1, by where its place does."""


@runs_where_chosen
def median(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Any:
    """The middle element along axes, or the mean of the two in the middle.

    Parameters
    ----------
    x : array
        Real numbers.
    axis : int, sequence of int or None
        Along which; None means all.
    keepdims : bool
        Whether these dimensions stay, with an extent of 1.

    Returns
    -------
    array
        Of the dtype of `x`, integers as floats; NaN where there is one.

    Raises
    ------
    ValueError
        Of no elements.
    DTypeError
        For complex numbers.
    """
    xp = namespace_of(x)
    x = floating("median", xp, x)
    axes = axes_of(axis, x.ndim)
    _check_some("median", x, axes)
    if is_numpys(xp):
        return xp.asarray(xp.median(x, axis=axes, keepdims=keepdims))
    rows = _as_last(xp, x, axes)
    ordered, n = xp.sort(rows, axis=-1), rows.shape[-1]
    low, high = ordered[..., (n - 1) // 2], ordered[..., n // 2]
    # The half of each: the sum of two large numbers would overflow.
    middle = low if n % 2 else low / 2 + high / 2
    return _shaped(xp, _with_nan(xp, rows, middle), x.shape, axes, keepdims)


@runs_where_chosen
def percentile(
    x: Any, q: Any, /, *, axis: Axis = None, method: Method = "linear", keepdims: bool = False
) -> Any:
    """`quantile` of ``q / 100``.

    Parameters
    ----------
    x : array
        As of `quantile`.
    q : array_like
        Percent, from 0 to 100.
    axis : int or tuple of int, optional
        Along which; all by default.
    method : str
        As of `quantile`.
    keepdims : bool
        Whether these axes stay with extent 1.
    """
    return quantile(x, _on_host(q) / 100, axis=axis, method=method, keepdims=keepdims)


@runs_where_chosen
def quantile(
    x: Any, q: Any, /, *, axis: Axis = None, method: Method = "linear", keepdims: bool = False
) -> Any:
    """The numbers below which given parts of the elements along axes lie.

    Parameters
    ----------
    x : array
        Real numbers.
    q : float, sequence or array
        Parts, from 0 to 1; those of an array of a device are copied to the host.
    axis : int, sequence of int or None
        Along which; None means all.
    method : {"linear", "lower", "higher", "midpoint", "nearest"}
        What to give for a place between two elements.
    keepdims : bool
        Whether these dimensions stay, with an extent of 1.

    Returns
    -------
    array
        The shape of `q`, then that of the rest of `x`. Of the dtype of `x`, integers as floats; NaN
        where there is one among the elements.

    Raises
    ------
    ValueError
        For parts out of range, an unknown method, or of no elements.
    DTypeError
        For complex numbers.

    Notes
    -----
    Definition 7 of R. Hyndman and Y. Fan, "Sample quantiles in statistical packages", The American
    Statistician 50 (1996), as NumPy's. The elements are sorted.
    """
    xp = namespace_of(x)
    parts = _checked(_on_host(q), method)
    x = floating("quantile", xp, x)
    axes = axes_of(axis, x.ndim)
    _check_some("quantile", x, axes)
    if is_numpy_namespace(xp):
        where = like(xp, x, parts, x.dtype)
        return xp.asarray(xp.quantile(x, where, axis=axes, method=method, keepdims=keepdims))
    rows = _as_last(xp, x, axes)
    each = parts.reshape(-1) if parts.size else np.zeros(1)  # one tells the shape of none
    values = _between(xp.sort(rows, axis=-1), each, method)
    values = [_with_nan(xp, rows, one) for one in values]
    shaped = [_shaped(xp, one, x.shape, axes, keepdims) for one in values]
    if not parts.shape:
        return shaped[0]
    return xp.reshape(xp.stack(shaped)[: parts.size, ...], (*parts.shape, *shaped[0].shape))


def _on_host(q: Any) -> np.ndarray[Any, Any]:
    host = namespace.to_numpy(q) if hasattr(q, "__dlpack_device__") else np.asarray(q)
    return host.astype(np.float64)


def _checked(parts: np.ndarray[Any, Any], method: str) -> np.ndarray[Any, Any]:
    if method not in (*_FRACTIONS, "nearest"):
        raise ValueError(f"method={method!r}; there are {', '.join(_FRACTIONS)}, nearest")
    if not ((parts >= 0) & (parts <= 1)).all():
        raise ValueError("quantiles lie between 0 and 1, percentiles between 0 and 100")
    return parts


def _check_some(name: str, x: Any, axes: tuple[int, ...]) -> None:
    if prod(x.shape[a] for a in axes) == 0:
        raise ValueError(f"{name} of no elements, along axes {axes} of shape {tuple(x.shape)}")


def _as_last(xp: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """The axes as one, the last."""
    rest = [a for a in range(x.ndim) if a not in axes]
    moved = xp.permute_dims(x, (*rest, *axes))
    return xp.reshape(moved, (*(x.shape[a] for a in rest), prod(x.shape[a] for a in axes)))


def _shaped(xp: Any, values: Any, shape: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if not keepdims:
        return values
    return xp.reshape(values, tuple(1 if a in axes else n for a, n in enumerate(shape)))


def _between(ordered: Any, parts: np.ndarray[Any, Any], method: str) -> list[Any]:
    """For each part what lies at its place in the sorted last axis."""
    last = ordered.shape[-1] - 1
    places = parts * last
    if method == "nearest":  # of two that are as near the one at an even place
        places = np.rint(places)
    below = np.floor(places)
    fractions = _FRACTIONS.get(method, np.zeros_like)(places - below)
    values = []
    for index, fraction in zip(below.astype(int).tolist(), fractions.tolist(), strict=True):
        low, high = ordered[..., index], ordered[..., min(index + 1, last)]
        values.append(_interpolated(low, high, fraction))
    return values


def _interpolated(low: Any, high: Any, fraction: float) -> Any:
    """Between two arrays, from the nearer one: exact at both ends, and never beyond them."""
    if fraction == 0:
        return low
    if fraction < 0.5:
        return low + (high - low) * fraction
    return high - (high - low) * (1 - fraction)


def _with_nan(xp: Any, rows: Any, values: Any) -> Any:
    """NaN for rows that have one, wherever sorting puts it."""
    return xp.where(xp.any(xp.isnan(rows), axis=-1), xp.full_like(values, xp.nan), values)
