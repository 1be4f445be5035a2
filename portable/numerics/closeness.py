"""Numbers that are equal but for rounding."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from portable.interchange.libraries import runs_where_chosen
from portable.numerics.namespaces import floating, like, namespace_of

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
