"""Whether numbers are the singular values of a matrix."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

import numpy as np

from portable_bench.operation import Array

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
