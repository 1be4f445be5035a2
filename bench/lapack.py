"""LAPACK routines that SciPy has no Python function for, called through its Cython interface."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from portable_bench.operation import Array

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype = ctypes.c_char_p
_name.argtypes = [ctypes.py_object]


def _routine(name: str) -> Any:
    from scipy.linalg import cython_lapack

    capsule = cython_lapack.__pyx_capi__[name]
    return ctypes.CFUNCTYPE(None)(_pointer(capsule, _name(capsule)))


def _call(name: str, *arguments: Any) -> None:
    """Numbers and letters are passed by reference, arrays by their data."""
    passed: list[Any] = []
    for x in arguments:
        if isinstance(x, np.ndarray):
            passed.append(ctypes.c_void_p(x.ctypes.data))
        elif isinstance(x, str):
            passed.append(ctypes.c_char_p(x.encode()))
        else:
            passed.append(ctypes.byref(ctypes.c_int(x)))
    info = ctypes.c_int(0)
    _routine(name)(*passed, ctypes.byref(info))
    if info.value:
        raise RuntimeError(f"LAPACK's {name} gave info={info.value}")


def bdsqr(d: Array, e: Array) -> Array:
    """The singular values of an upper bidiagonal matrix, to high relative accuracy, in f64."""
    d, e = d.astype(np.float64), e.astype(np.float64)
    n, none = d.size, np.empty(1)
    _call("dbdsqr", "U", n, 0, 0, 0, d, e, none, 1, none, 1, none, 1, np.empty(4 * n + 4))
    return d


def gbbrd(ab: Array) -> tuple[Array, Array]:
    """An upper band in SciPy's form reduced to bidiagonal, in the precision of `ab`."""
    rows, n = ab.shape
    work = np.asfortranarray(ab)
    d, e = np.empty(n, ab.dtype), np.empty(max(n - 1, 1), ab.dtype)
    none = np.empty(1, ab.dtype)
    space = np.empty(2 * n, ab.dtype)
    name = "sgbbrd" if ab.dtype == np.float32 else "dgbbrd"
    tail = (none, 1, none, 1, none, 1, space)
    _call(name, "N", n, n, 0, 0, rows - 1, work, rows, d, e, *tail)
    return d, e[: n - 1]
