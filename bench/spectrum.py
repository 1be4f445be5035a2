"""Whether a bidiagonal matrix has the singular values of a banded one."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np

from portable_bench.operation import Array
from portable_bench.values import tolerance

_FULL: Final = 1024
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
        from portable_bench.lapack import bdsqr

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
