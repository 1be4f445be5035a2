"""Whether a product is as accurate as `portable.linalg.gemm` promises."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np

from portable.dtypes import dtype, float64
from portable.tune.search import unit_roundoff, worst_error

_FULL: Final = 1024
_SAMPLED: Final = 128
_Array = np.ndarray[Any, Any]


def tolerance(k: int, kind: Any, accumulator: Any = None) -> float:
    """``4 (K u_acc + u_out)``: the error allowed, over ``|alpha| |A| |B|`` and the like.

    Parameters
    ----------
    k : int
        The extent that is summed over.
    kind, accumulator : dtype
        Of the result and of the sums; the latter by default as `gemm` sums.
    """
    out = dtype(kind)
    return 4 * (k * unit_roundoff(dtype(accumulator or out.register)) + unit_roundoff(out))


class ProductCheck:
    """Compares products with a reference in double precision.

    All elements are compared up to 1024, beyond that sampled rows. Double precision is compared
    with a longer type on sampled elements too, where the machine has one.

    Parameters
    ----------
    a, b : numpy.ndarray
        The matrices.
    """

    def __init__(self, a: _Array, b: _Array) -> None:
        self._a, self._b = a, b
        self._tolerance = tolerance(a.shape[1], a.dtype)
        self._rows: Any = slice(None)
        if max(*a.shape, *b.shape) > _FULL:
            count = min(_SAMPLED, a.shape[0])
            chosen = np.random.default_rng(2).choice(a.shape[0], count, replace=False)
            self._rows = np.sort(chosen)

    def error(self, result: _Array) -> float:
        """The worst error as a multiple of what is allowed; up to 1 is right."""
        exact, magnitude = self._exact
        values = result[self._rows].astype(np.float64)
        worst = worst_error(values, exact, self._tolerance * magnitude)
        if dtype(result.dtype) is not float64:
            return worst
        i, j, longer, sizes = self._entries
        return max(worst, worst_error(result[i, j], longer, self._tolerance * sizes))

    @cached_property
    def _exact(self) -> tuple[_Array, _Array]:
        """The compared rows, and the same of the absolute values."""
        a, b = self._a[self._rows].astype(np.float64), self._b.astype(np.float64)
        return a @ b, np.abs(a) @ np.abs(b)

    @cached_property
    def _entries(self) -> tuple[_Array, _Array, _Array, _Array]:
        """Sampled elements in a type longer than double precision."""
        a, b = self._a, self._b
        random = np.random.default_rng(3)
        i = random.integers(0, a.shape[0], _SAMPLED)
        j = random.integers(0, b.shape[1], _SAMPLED)
        products = a[i].astype(np.longdouble) * b[:, j].T.astype(np.longdouble)
        return i, j, products.sum(1), np.abs(products).sum(1)
