"""Linear systems solved as well as they can be."""

from __future__ import annotations

from typing import Any, NamedTuple

from portable.errors import ShapeError
from portable.interchange.libraries import runs_where_chosen
from portable.numerics.namespaces import floating, is_numpys, namespace_of


class LeastSquares(NamedTuple):
    """What `lstsq` gives.

    Attributes
    ----------
    x : array, shape (n,) or (n, k)
        The solution.
    residuals : array, shape (k,) or (1,)
        The sum of squares of ``b - a @ x`` for each column; empty unless m > n and the rank is n.
    rank : int
        The number of singular values that count.
    singular_values : array, shape (min(m, n),)
        The largest first.
    """

    x: Any
    residuals: Any
    rank: int
    singular_values: Any


@runs_where_chosen
def lstsq(a: Any, b: Any, /, *, rcond: float | None = None) -> LeastSquares:
    """The `x` of least norm among those for which ``a @ x`` is nearest to `b`.

    Parameters
    ----------
    a : array, shape (m, n)
        Real or complex.
    b : array, shape (m,) or (m, k)
        One right-hand side, or one in each column.
    rcond : float, optional
        Singular values up to this part of the largest count as zero; the dtype's epsilon times the
        larger of m and n by default.

    Returns
    -------
    LeastSquares
        The solution, residuals, rank and singular values.

    Raises
    ------
    ShapeError
        For shapes that do not fit.

    Notes
    -----
    By the singular value decomposition of the array's library. Reads the rank from the device.
    """
    xp = namespace_of(a, b)
    if a.ndim != 2 or b.ndim not in (1, 2) or b.shape[0] != a.shape[0]:
        raise ShapeError(
            f"lstsq takes shapes (m, n) and (m,) or (m, k), not {tuple(a.shape)} and "
            f"{tuple(b.shape)}"
        )
    kinds = ("real floating", "complex floating")
    a, b = floating("lstsq", xp, a, kinds), floating("lstsq", xp, b, kinds)
    kind = xp.result_type(a, b)
    a, b = xp.astype(a, kind, copy=False), xp.astype(b, kind, copy=False)
    if is_numpys(xp):
        x, residuals, rank, singular = xp.linalg.lstsq(a, b, rcond=rcond)
        return LeastSquares(x, residuals, int(rank), singular)
    return _by_svd(xp, a, b, rcond)


def _by_svd(xp: Any, a: Any, b: Any, rcond: float | None) -> LeastSquares:
    m, n = a.shape
    right = b if b.ndim == 2 else xp.expand_dims(b, axis=1)
    u, s, vh = xp.linalg.svd(a, full_matrices=False)
    if rcond is None:
        rcond = float(xp.finfo(s.dtype).eps) * max(m, n)
    counts = s > rcond * s[:1] if s.shape[0] else s > 0
    rank = int(xp.sum(xp.astype(counts, xp.int64)))
    ones = xp.ones_like(s)
    inverse = xp.where(counts, ones / xp.where(counts, s, ones), xp.zeros_like(s))
    weights = xp.expand_dims(xp.astype(inverse, a.dtype, copy=False), axis=1)
    x = xp.matmul(_adjoint(xp, vh), weights * xp.matmul(_adjoint(xp, u), right))
    residuals = xp.zeros_like(s[:0])
    if m > n and rank == n:
        left = xp.abs(right - xp.matmul(a, x))
        residuals = xp.sum(left * left, axis=0)
    return LeastSquares(x if b.ndim == 2 else x[:, 0], residuals, rank, s)


def _adjoint(xp: Any, a: Any) -> Any:
    turned = xp.matrix_transpose(a)
    return xp.conj(turned) if xp.isdtype(a.dtype, "complex floating") else turned
