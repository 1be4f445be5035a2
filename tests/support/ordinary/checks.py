"""How near a result must be to NumPy's, and what is said of one that is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import portable
from portable.backend import Device
from tests.support.ordinary.model import Array, Case, Function

_LEAST: Final = 1e-6
"""Of a result that is 0, where roundings of subnormal numbers would be asked for."""


def lacking(case: Case, device: Device, ours: bool) -> bool:
    """Whether a device has no such function or dtype."""
    double = case.dtype in ("float64", "complex128") and not device.capabilities.float64
    return double or (case.function.arrays and not ours)


def failure(case: Case, device: Device) -> str:
    """What is wrong with a function's result on a device, in one line; empty if nothing."""
    operands = case.operands()
    try:
        given = [device.from_numpy(x) for x in operands]
        result = case.function.call(portable.xp(device), *given)
        found = [np.asarray(portable.to_numpy(x)) for x in parts(result)]
    except Exception as error:  # noqa: BLE001 - whatever a function raises is what is sought
        return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return difference(found, case, operands)


def difference(found: list[Array], case: Case, operands: list[Array]) -> str:
    """What of a function's results is not NumPy's, in one line; empty if nothing."""
    expected, sizes = wanted(case.function, operands)
    if len(found) != len(expected):
        return f"{len(found)} results, NumPy has {len(expected)}"
    faults = (
        _fault(*both, case.function, sizes, case.dtype)
        for both in zip(found, expected, strict=True)
    )
    return next(filter(None, faults), "")


def wanted(function: Function, operands: list[Array]) -> tuple[list[Array], Any]:
    """NumPy's results, and what roundings are relative to."""
    widened = [_wide(x, function.longer) for x in operands] if function.widened else operands
    call: Callable[..., Any] = function.expected or (lambda *x: function.call(np, *x))
    with np.errstate(all="ignore"):
        expected = [np.asarray(x) for x in parts(call(*widened))]
        sizes = function.sizes(*widened) if callable(function.sizes) else function.sizes
    return expected, sizes


def _wide(x: Array, longer: bool) -> Array:
    kinds = {"f": np.float64, "c": np.complex128}
    if longer and x.dtype in kinds.values():
        kinds = {"f": np.longdouble, "c": np.clongdouble}
    return x.astype(kinds[x.dtype.kind]) if x.dtype.kind in kinds else x


def parts(result: Any) -> list[Any]:
    """The arrays of a result."""
    return list(result) if isinstance(result, tuple | list) else [result]


def _fault(found: Array, expected: Array, function: Function, sizes: Any, dtype: str) -> str:
    if found.shape != expected.shape:
        return f"shape {found.shape}, NumPy has {expected.shape}"
    if found.dtype.kind not in "fc":
        wrong = found != expected
        return _told(wrong, found, expected) if wrong.any() else ""
    with np.errstate(all="ignore"):
        rounded = expected.astype(found.dtype)
        if isinstance(sizes, str):
            sizes = abs(expected) if sizes == "result" else abs(expected).max(initial=0)
        unit = np.finfo(found.dtype).eps
        if np.dtype(dtype).kind in "fc":
            unit = max(unit, np.finfo(dtype).eps)
        allowed = function.units * unit * (np.asarray(sizes) + _LEAST)
        near = abs(found.astype(expected.dtype) - expected) <= allowed
    same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    wrong = ~(near | same)
    return _told(wrong, found, expected) if wrong.any() else ""


def _told(wrong: Array, found: Array, expected: Array) -> str:
    at = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
    return (
        f"{np.count_nonzero(wrong)} of {wrong.size} differ, first at {at}: "
        f"{found[at]!r}, NumPy has {expected[at]!r}"
    )
