"""Arrays with a margin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import array_api_extra as xpx
import numpy as np

from portable.errors import ShapeError
from portable.interchange.libraries import runs_where_chosen
from portable.numerics.namespaces import is_numpys, like, namespace_of

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
