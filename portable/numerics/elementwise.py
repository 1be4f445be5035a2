"""Whether arrays are close, and arrays padded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import array_api_extra as xpx
import numpy as np

from portable.errors import ShapeError
from portable.interchange.libraries import runs_where_chosen
from portable.numerics.namespaces import floating, is_numpys, like, namespace_of

# Numbers that are equal but for rounding.

_KINDS: Final = ("real floating", "complex floating")


@runs_where_chosen
def isclose(
    a: Any, b: Any, /, *, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    """Where ``abs(a - b) <= atol + rtol * abs(b)``, element by element.

    Parameters
    ----------
    a, b : array or number
        Of shapes that broadcast together; one of the two is an array. Integers count as floats.
    rtol, atol : float
        The bound relative to `b`, and the absolute one.
    equal_nan : bool
        Whether NaN is close to NaN.

    Returns
    -------
    array
        Bools; infinities are close to equal ones alone.

    Raises
    ------
    ShapeError, ValueError
        If shapes cannot be broadcast together, as the library says it.
    """
    xp = namespace_of(a, b)
    a, b = _operands(xp, a, b)
    with np.errstate(invalid="ignore"):  # of NumPy's infinities
        near = xp.abs(a - b) <= atol + rtol * xp.abs(b)
    # The difference of infinities is NaN, or infinite as the bound is.
    close = (a == b) | (near & xp.isfinite(a) & xp.isfinite(b))
    return xp.asarray(close | (xp.isnan(a) & xp.isnan(b)) if equal_nan else close)


@runs_where_chosen
def allclose(
    a: Any, b: Any, /, *, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether `isclose` holds of all elements; waits for the device.

    Parameters
    ----------
    a, b : array or number
        Of shapes that broadcast together; one of the two is an array.
    rtol, atol : float
        The bound relative to `b`, and the absolute one.
    equal_nan : bool
        Whether NaN is close to NaN.
    """
    close = isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    return bool(namespace_of(close).all(close))


def _operands(xp: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Both as arrays of floats, a number in the other's dtype."""
    if not hasattr(a, "shape"):
        b, a = reversed(_operands(xp, b, a))
        return a, b
    a = floating("isclose", xp, a, _KINDS)
    if not hasattr(b, "shape"):
        return a, like(xp, a, b, xp.result_type(a, b))
    return a, floating("isclose", xp, b, _KINDS)


# Arrays with a margin.

Mode = Literal["constant", "edge", "reflect", "symmetric", "wrap"]
Width = int | Sequence[int] | Sequence[Sequence[int]]

_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


@runs_where_chosen
def pad(
    x: Any, pad_width: Width, /, mode: Mode = "constant", *, constant_values: complex = 0
) -> Any:
    """The array with a margin before and after each axis.

    Parameters
    ----------
    x : array
        Of any dtype.
    pad_width : int, (before, after) or one such pair for each axis
        How many elements.
    mode : {"constant", "edge", "reflect", "symmetric", "wrap"}
        What they are: `constant_values`; the outermost element; the mirror image without it, or
        with it; the other end.
    constant_values : number
        For "constant".

    Returns
    -------
    array
        Of the dtype of `x`.

    Raises
    ------
    ShapeError
        For widths that do not fit the array, or are negative.
    ValueError
        For another mode, or one that needs elements of an axis without any.
    """
    if mode not in _MODES:
        raise ValueError(f"mode={mode!r}; there are {', '.join(_MODES)}")
    xp = namespace_of(x)
    widths = _widths(pad_width, x.ndim)
    if is_numpys(xp):
        values = {"constant_values": constant_values} if mode == "constant" else {}
        return xp.pad(x, widths, mode=mode, **values)
    if mode == "constant":
        return xpx.pad(x, widths, constant_values=constant_values, xp=xp) if x.ndim else x
    for axis, width in enumerate(widths):
        if any(width):
            # Where each element comes from is what NumPy makes of the places themselves.
            places = np.pad(np.arange(x.shape[axis]), width, mode=mode)
            x = xp.take(x, like(xp, x, places), axis=axis)
    return x


def _widths(given: Width, ndim: int) -> list[tuple[int, int]]:
    """Elements before and after each axis."""
    try:
        widths = np.broadcast_to(np.asarray(given), (ndim, 2))
    except ValueError:
        raise ShapeError(f"pad_width {given} for an array of {ndim} dimensions") from None
    if not np.issubdtype(widths.dtype, np.integer) or (widths < 0).any():
        raise ShapeError(f"pad_width is {given}; it takes integers that are not negative")
    return [(before, after) for before, after in widths.tolist()]
