"""Numbers on a logarithmic scale, and in which interval numbers lie."""

from __future__ import annotations

from typing import Any

from portable import namespace
from portable.errors import ShapeError
from portable.interchange.libraries import runs_where_chosen
from portable.numerics.namespaces import namespace_of


@runs_where_chosen
def digitize(x: Any, bins: Any, /, *, right: bool = False) -> Any:
    """In which of a row of intervals each element lies.

    Parameters
    ----------
    x : array
        Real numbers, any shape.
    bins : array, shape (n,)
        Where intervals begin, in ascending or in descending order.
    right : bool
        Whether intervals hold their right end, and not their left one.

    Returns
    -------
    array
        int64, of the shape of `x`: i for ``bins[i - 1] <= x < bins[i]``, 0 before the first, n
        behind the last. With descending bins ``bins[i - 1] > x >= bins[i]``.

    Raises
    ------
    ShapeError
        If `bins` is no vector.
    ValueError
        For bins in no order.

    Notes
    -----
    By binary search. Reads from the device whether bins are in order.
    """
    xp = namespace_of(x, bins)
    if bins.ndim != 1:
        raise ShapeError(f"digitize takes a vector of bins, not shape {tuple(bins.shape)}")
    if bool(xp.all(bins[1:] >= bins[:-1])):
        return xp.searchsorted(bins, x, side="left" if right else "right")
    if not bool(xp.all(bins[1:] <= bins[:-1])):
        raise ValueError("bins of digitize are in ascending or in descending order")
    numbers = xp.searchsorted(xp.flip(bins), x, side="right" if not right else "left")
    return bins.shape[0] - numbers


def logspace(
    start: float,
    stop: float,
    /,
    num: int = 50,
    *,
    endpoint: bool = True,
    base: float = 10.0,
    dtype: Any = None,
    device: Any = None,
) -> Any:
    """Numbers evenly spaced on a logarithmic scale, from ``base ** start`` to ``base ** stop``.

    Parameters
    ----------
    start, stop : float
        The exponents of the first and the last number.
    num : int
        How many.
    endpoint : bool
        Whether the last one is ``base ** stop``.
    base : float
        Of the powers.
    dtype : dtype, optional
        Of the result; by default the device's default for floats.
    device : Device or str, optional
        Where the result is to be; by default the device in use.

    Returns
    -------
    array, shape (num,)
        Of the kind that `portable.xp` makes for the device.
    """
    xp = namespace.xp(device)
    powers = xp.pow(base, xp.linspace(start, stop, num, endpoint=endpoint))
    return powers if dtype is None else xp.astype(powers, dtype)
