"""The namespace that computes, and what the functions here ask of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from array_api_compat import array_namespace, is_cupy_namespace, is_numpy_namespace
from array_api_compat import device as device_of_library

from portable.errors import DTypeError, ShapeError


def namespace_of(*arrays: Any) -> Any:
    """The namespace of arrays, of which those that are None or Python's numbers do not count.

    Raises
    ------
    TypeError
        If there is none, or there are two.
    """
    return array_namespace(*[x for x in arrays if hasattr(x, "shape")])


def is_numpys(xp: Any) -> bool:
    """Whether the library's own functions of these names are NumPy's, or written after them."""
    return bool(is_numpy_namespace(xp) or is_cupy_namespace(xp))


def like(xp: Any, x: Any, values: Any, dtype: Any = None) -> Any:
    """A host's values as an array of the library, on the device of `x`.

    Parameters
    ----------
    xp : namespace
        The library.
    x : array
        Whose device to use.
    values : array_like
        Numbers on the host.
    dtype : dtype, optional
        Of the result.
    """
    return xp.asarray(values, dtype=dtype, device=device_of_library(x))


def default_float(xp: Any, x: Any) -> Any:
    """The dtype that the library's device makes of Python's floats."""
    information = xp.__array_namespace_info__()
    return information.default_dtypes(device=device_of_library(x))["real floating"]


def floating(name: str, xp: Any, x: Any, kinds: tuple[str, ...] = ("real floating",)) -> Any:
    """The array itself if it is of floats (of these `kinds`), integers converted to floats.

    Parameters
    ----------
    name : str
        The function, as users call it.
    xp : namespace
        The library.
    x : array
        What it was given.
    kinds : tuple of str
        What is taken as it is, in the words of ``isdtype``.

    Raises
    ------
    DTypeError
        For dtypes of other kinds.
    """
    if xp.isdtype(x.dtype, kinds):
        return x
    if not xp.isdtype(x.dtype, ("integral", "bool")):
        raise DTypeError(f"{name} takes real numbers, not {x.dtype}")
    return xp.astype(x, default_float(xp, x))


def axes_of(axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Axes as numbers from 0; None means all.

    Raises
    ------
    ShapeError
        For axes out of range, or named twice.
    """
    named = range(ndim) if axis is None else [axis] if isinstance(axis, int) else list(axis)
    positive = tuple(a + ndim if a < 0 else a for a in named)
    if any(not 0 <= a < ndim for a in positive) or len(set(positive)) < len(positive):
        raise ShapeError(f"axis {axis} of an array of {ndim} dimensions")
    return positive
