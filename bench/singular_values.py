"""Whether numbers are the singular values of a matrix, and what LAPACK makes of it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

import numpy as np

from portable_bench.operation import Array

# LAPACK routines that SciPy has no Python function for, called through its Cython interface.

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


# Whether numbers are the singular values of a matrix.

_FULL: Final = 1024
_TOLERANCES: Final = {2: 5e-3, 4: 2e-6, 8: 1e-13}
"""By size of an element."""


def tolerance(x: Array) -> float:
    """Error allowed in a precision, of a singular value by the largest, of a norm by itself."""
    return _TOLERANCES[x.itemsize]


def worst_of(values: Array, allowed: float) -> Callable[[Any], float]:
    """The worst error by the largest of these values, as a multiple of what is allowed.

    Parameters
    ----------
    values : numpy.ndarray
        The right ones, in the same order.
    allowed : float
    """

    def error(given: Any) -> float:
        apart = np.abs(np.asarray(given, np.float64) - values)
        return float(np.max(apart) / np.max(np.abs(values))) / allowed

    return error


class ValuesCheck:
    """Compares with singular values from LAPACK, or with norms of large matrices.

    All are compared up to 1024. Beyond, the Schatten norms of order 2 and 4 are.

    Parameters
    ----------
    a : numpy.ndarray, shape (m, n)
        The matrix, in the precision to be checked.
    """

    def __init__(self, a: Array) -> None:
        self._a = a.astype(np.float64)
        self._tolerance = tolerance(a)

    def error(self, values_given: Array) -> float:
        """The worst error as a multiple of what is allowed."""
        values = np.asarray(values_given, np.float64)
        if not np.isfinite(values).all():
            return float("inf")
        if values.size > _FULL:
            errors = _norms(np.sum(values**2), np.sum(values**4)) / self._norms - 1
        else:
            errors = (values - self._values) / self._values[0]
        return float(np.max(np.abs(errors))) / self._tolerance

    @cached_property
    def _values(self) -> Array:
        return np.linalg.svd(self._a, compute_uv=False)

    @cached_property
    def _norms(self) -> Array:
        m, n = self._a.shape
        gram = self._a @ self._a.T if m < n else self._a.T @ self._a
        return _norms(np.trace(gram), np.sum(gram * gram))


def _norms(squares: float, fourths: float) -> Array:
    return np.array([squares**0.5, fourths**0.25])


# Whether a bidiagonal matrix has the singular values of a banded one.

_NARROW: Final = 8
_Diagonals = dict[int, Array]


class SpectrumCheck:
    """Compares with singular values from LAPACK, or with norms of large matrices.

    All singular values are compared up to 1024. Beyond, the sums of their powers 2, 4, 6 and 8
    are, which are the Schatten norms, and the traces of powers of ``A^T A``.

    Parameters
    ----------
    ab : numpy.ndarray, shape (u + 1, n)
        The band, as `portable.linalg.band_to_bidiagonal` takes it, in the precision to be checked.
    """

    def __init__(self, ab: Array) -> None:
        self._ab = ab.astype(np.float64)
        # The fewer diagonals, the more hops in a row.
        self._tolerance: float = tolerance(ab) * max(1, _NARROW / (ab.shape[0] - 1))

    def error(self, diagonals: tuple[Array, Array]) -> float:
        """The worst error of ``(d, e)`` as a multiple of what is allowed."""
        d, e = (np.asarray(x, np.float64) for x in diagonals)
        if not (np.isfinite(d).all() and np.isfinite(e).all()):
            return float("inf")
        if d.size > _FULL:
            norms = _schatten({0: d, 1: e})
            return float(np.max(np.abs(norms / self._norms - 1))) / self._tolerance

        errors = np.abs(bdsqr(d, e) - self._values) / self._values[0]
        return float(np.max(errors)) / self._tolerance

    @cached_property
    def _values(self) -> Array:
        from scipy.linalg import svdvals

        rows, n = self._ab.shape
        dense = np.zeros((n, n))
        for k in range(min(rows, n)):
            i = np.arange(n - k)
            dense[i, i + k] = self._ab[rows - 1 - k, k:]
        return np.asarray(svdvals(dense))

    @cached_property
    def _norms(self) -> Array:
        rows, n = self._ab.shape
        return _schatten({k: self._ab[rows - 1 - k, k:] for k in range(min(rows, n))})


def _schatten(upper: _Diagonals) -> Array:
    """The norms ``(sum sigma^(2 k))^(1 / 2 k)`` for k from 1 to 4 of an upper banded matrix."""
    gram = _times_transpose(upper)
    square = _symmetric_square(gram)
    traces = (gram[0].sum(), _inner(gram, gram), _inner(gram, square), _inner(square, square))
    return np.array([x ** (0.5 / k) for k, x in enumerate(traces, 1)])


def _times_transpose(upper: _Diagonals) -> _Diagonals:
    """The upper diagonals of ``A A^T``: element (i, i + k) sums over columns j >= i + k."""
    n = upper[0].size
    diagonals = {k: np.zeros(n - k) for k in upper}
    for left, x in upper.items():
        for right, y in upper.items():
            k = left - right
            if k >= 0:
                diagonals[k][: n - left] += x * y[k:]
    return diagonals


def _symmetric_square(upper: _Diagonals) -> _Diagonals:
    """The upper diagonals of the square of a symmetric banded matrix, given its upper ones."""
    n = upper[0].size
    full = {
        s * k: np.pad(x, (0, k) if s > 0 else (k, 0)) for k, x in upper.items() for s in (1, -1)
    }
    widest = min(2 * max(upper), n - 1)
    diagonals = {k: np.zeros(n - k) for k in range(widest + 1)}
    for first, x in full.items():
        # Row i: x[i] is element (i, i + first), and y[i + first] element (i + first, i + k).
        rows = slice(max(0, -first), n - max(0, first))
        for second, y in full.items():
            k = first + second
            if 0 <= k <= widest:
                term = np.zeros(n)
                term[rows] = x[rows] * y[rows.start + first : rows.stop + first]
                diagonals[k] += term[: n - k]
    return diagonals


def _inner(a: _Diagonals, b: _Diagonals) -> float:
    """``trace(A B)`` of two symmetric banded matrices, given their upper diagonals."""
    return sum((1 if k == 0 else 2) * float(x @ b[k]) for k, x in a.items())
