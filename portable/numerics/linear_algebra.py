"""Norms, covariances and least squares."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from portable import linalg
from portable.errors import ShapeError
from portable.interchange.libraries import runs_where_chosen
from portable.numerics.namespaces import axes_of, floating, is_numpys, namespace_of

# Norms of vectors and matrices, asked for as NumPy's ``linalg.norm``.


@runs_where_chosen
def norm(
    x: Any,
    /,
    ord: float | Literal["fro", "nuc"] | None = None,
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
) -> Any:
    """The norm of vectors or matrices, by `vector_norm` and `matrix_norm` of the array's library.

    Parameters
    ----------
    x : array
        Numbers; integers count as floats.
    ord : float, "fro", "nuc" or None
        Which norm. None: the root of the sum of squares, of all elements where there is no `axis`.
    axis : int, (int, int) or None
        One for vectors, two for matrices. None with an `ord`: an array of one dimension is a
        vector, one of two a matrix.
    keepdims : bool
        Whether these dimensions stay, with an extent of 1.

    Returns
    -------
    array
        Real, of the precision of `x`.

    Raises
    ------
    ShapeError
        For an `ord` of more than two dimensions, or axes that are no one or two.
    """
    xp = namespace_of(x)
    x = floating("norm", xp, x, ("real floating", "complex floating"))
    if axis is None and ord is None:
        return xp.asarray(xp.linalg.vector_norm(x, keepdims=keepdims))
    axes = axes_of(axis, x.ndim)
    if len(axes) == 1:
        order = 2 if ord is None else ord
        return xp.asarray(xp.linalg.vector_norm(x, axis=axes[0], keepdims=keepdims, ord=order))
    if len(axes) != 2:
        raise ShapeError(
            f"norm of a vector or a matrix takes one axis or two, not {axis} of shape "
            f"{tuple(x.shape)}"
        )
    last = xp.moveaxis(x, axes, (-2, -1))
    norms = xp.linalg.matrix_norm(last, ord="fro" if ord is None else ord)
    if keepdims:
        norms = xp.reshape(norms, tuple(1 if a in axes else n for a, n in enumerate(x.shape)))
    return xp.asarray(norms)


# Covariances and correlations of variables.


@runs_where_chosen
def cov(m: Any, /, *, rowvar: bool = True, bias: bool = False, ddof: int | None = None) -> Any:
    """The covariances of variables with each other.

    Parameters
    ----------
    m : array, shape (n,) or (k, n)
        Numbers; each row is a variable, each column an observation of all.
    rowvar : bool
        Whether variables are rows; False: columns are.
    bias : bool
        Whether sums are divided by n, and not by n - 1.
    ddof : int, optional
        Sums are divided by ``n - ddof``, whatever `bias` says.

    Returns
    -------
    array, shape (k, k), or () of one variable
        By one product of the deviations from the means with themselves, in the dtype of `m`.

    Raises
    ------
    ShapeError
        For more than two dimensions.
    ValueError
        If there are no more observations than `ddof`.
    """
    xp = namespace_of(m)
    if m.ndim > 2 or m.ndim == 0:
        raise ShapeError(f"cov takes one or two dimensions, not shape {tuple(m.shape)}")
    m = floating("cov", xp, m, ("real floating", "complex floating"))
    rows = m if m.ndim == 2 else xp.reshape(m, (1, -1))
    if not rowvar and m.ndim == 2:
        rows = xp.permute_dims(rows, (1, 0))
    count = rows.shape[1] - (int(not bias) if ddof is None else ddof)
    if count <= 0:
        raise ValueError(
            f"cov of {rows.shape[1]} observations divides by {count}; give more of them, or a "
            "smaller ddof"
        )
    rows = rows - xp.mean(rows, axis=1, keepdims=True)
    turned = xp.permute_dims(rows, (1, 0))
    if xp.isdtype(rows.dtype, "complex floating"):
        turned = xp.conj(turned)
    covariance = xp.matmul(rows, turned) / count
    return xp.reshape(covariance, ()) if covariance.shape == (1, 1) else covariance


@runs_where_chosen
def corrcoef(x: Any, /, *, rowvar: bool = True) -> Any:
    """Pearson's coefficients of correlation: covariances over standard deviations.

    Parameters
    ----------
    x : array, shape (n,) or (k, n)
        As of `cov`.
    rowvar : bool
        Whether variables are rows; False: columns are.

    Returns
    -------
    array, shape (k, k), or () of one variable
        From -1 to 1; NaN of variables that do not vary.

    Raises
    ------
    ShapeError, ValueError
        As of `cov`.
    """
    xp = namespace_of(x)
    correlation = cov(x, rowvar=rowvar)
    if not correlation.ndim:
        return xp.asarray(correlation / correlation)
    spread = (
        xp.sqrt(xp.real(xp.linalg.diagonal(correlation)))
        if _complex(xp, correlation)
        else xp.sqrt(xp.linalg.diagonal(correlation))
    )
    correlation = correlation / spread[:, None] / spread[None, :]
    return correlation if _complex(xp, correlation) else xp.clip(correlation, -1.0, 1.0)


def _complex(xp: Any, x: Any) -> bool:
    return bool(xp.isdtype(x.dtype, "complex floating"))


# Linear systems solved as well as they can be.


class LeastSquares(NamedTuple):
    """The result of `lstsq`.

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
    """The least-squares solution: the `x` of least norm that minimises ``|b - a @ x|``.

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
    By `portable.linalg.lstsq`; of NumPy's arrays by NumPy's. Reads the rank from the device.
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
    (m, n), least = a.shape, float(xp.finfo(a.dtype).eps) * max(1, *a.shape)
    x, residuals, rank, singular = linalg.lstsq(a, b, rcond=least if rcond is None else rcond)
    residuals = xp.reshape(residuals, (-1,))[: None if m > n == int(rank) else 0]
    return LeastSquares(x, residuals, int(rank), singular)
