"""Covariances and correlations of variables."""

from __future__ import annotations

from typing import Any

from portable.errors import ShapeError
from portable.interchange.libraries import runs_where_chosen
from portable.numerics.namespaces import floating, namespace_of


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
