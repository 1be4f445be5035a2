"""The ``linalg`` extension of the Array API.

All of it runs on the device: decompositions and solvers are those of `portable.linalg`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, Final, Literal

from portable import linalg as factorisations
from portable.array.array import Array
from portable.array.base.operations import OPERATIONS, power_of_size
from portable.array.creation import eye
from portable.array.eigen import eig, eigvals
from portable.array.functions import manipulation
from portable.array.functions.diagonals import diagonal, trace
from portable.array.functions.elementwise import multiply, sqrt
from portable.array.functions.products import cross, matmul, matrix_transpose, tensordot, vecdot
from portable.array.functions.statistics import merged_sizes, summed_in
from portable.array.functions.statistics import sum as summed
from portable.errors import DTypeError, ShapeError
from portable.linalg.factorisations.determinants import Slogdet
from portable.linalg.factorisations.qr import QRFactors
from portable.linalg.singular_values.svdvals import svdvals as singular_values
from portable.linalg.spectral import by_values, decompositions
from portable.primitives.base.operands import normalized_axes, promoted_on, reduced_shape
from portable.primitives.base.recipe import Plans, Recipe
from portable.primitives.maps.elementwise import check_arrays, check_operands, recorded
from portable.primitives.maps.work import Operation
from portable.primitives.moves.copying import converted
from portable.recording import taped

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


# -- decompositions and solvers ----------------------------------------------------------------


def _check_matrices(name: str, x: Array) -> None:
    check_operands(name, (x,))
    if x.dtype.kind not in "fc" or x.dtype.itemsize < 4:
        raise DTypeError(
            f"{name} takes float32, float64, complex64 and complex128, not {x.dtype.name}"
        )
    if x.ndim < 2 and name != "solve":
        raise ShapeError(f"{name} takes matrices, not an array of shape {x.shape}")


def cholesky(x: Array, /, *, upper: bool = False) -> Array:
    """The Cholesky factor of positive definite matrices, by `portable.linalg.cholesky`.

    Parameters
    ----------
    x : Array
        ``(..., n, n)``, `float32`, `float64` or complex, symmetric or Hermitian; the triangle that
        the factor has is read.
    upper : bool
        Whether to give the upper factor, ``U^H U = x``, and not the lower, ``L L^H = x``.

    Raises
    ------
    ValueError
        If a matrix is not square or not positive definite (`numpy.linalg.LinAlgError`).
    """
    _check_matrices("cholesky", x)
    return factorisations.cholesky(x, upper=upper)


def det(x: Array, /) -> Array:
    """Determinants, by `portable.linalg.det`.

    Parameters
    ----------
    x : Array
        ``(..., n, n)``, `float32`, `float64` or complex.

    Returns
    -------
    Array
        ``(...)``, of the dtype of `x`.

    Raises
    ------
    ValueError
        If matrices are not square.
    """
    _check_matrices("det", x)
    return factorisations.det(x)


def eigh(x: Array, /) -> decompositions.EighResult:
    """Eigenvalues and eigenvectors of symmetric or Hermitian matrices: `portable.linalg.eigh`.

    Parameters
    ----------
    x : Array
        ``(..., n, n)``, `float32`, `float64` or complex; the lower triangle is read.

    Returns
    -------
    eigenvalues : Array
        ``(..., n)``, real, in ascending order.
    eigenvectors : Array
        ``(..., n, n)``, as columns.

    Raises
    ------
    ValueError
        If matrices are not square; NumPy's ``LinAlgError`` for NaN and infinities.
    """
    _check_matrices("eigh", x)
    return decompositions.eigh(x)


def eigvalsh(x: Array, /) -> Array:
    """Eigenvalues of symmetric or Hermitian matrices: `portable.linalg.eigvalsh`.

    Parameters
    ----------
    x : Array
        ``(..., n, n)``, `float32`, `float64` or complex; the lower triangle is read.

    Returns
    -------
    Array
        ``(..., n)``, real, in ascending order.

    Raises
    ------
    ValueError
        If matrices are not square; NumPy's ``LinAlgError`` for NaN and infinities.
    """
    _check_matrices("eigvalsh", x)
    return decompositions.eigvalsh(x)


def inv(x: Array, /) -> Array:
    """Inverses, by `portable.linalg.inv`.

    Parameters
    ----------
    x : Array
        ``(..., n, n)``, `float32`, `float64` or complex.

    Raises
    ------
    ValueError
        If a matrix is not square or singular (`numpy.linalg.LinAlgError`).
    """
    _check_matrices("inv", x)
    return factorisations.inv(x)


def pinv(x: Array, /, *, rtol: float | Array | None = None) -> Array:
    """Pseudo-inverses of Moore and Penrose: `portable.linalg.pinv`.

    Parameters
    ----------
    x : Array
        ``(..., m, n)``, `float32`, `float64` or complex.
    rtol : float or Array, optional
        Singular values up to so much of the greatest count as zero, an array for each matrix; by
        default ``max(m, n)`` times the dtype's `eps`.

    Returns
    -------
    Array
        ``(..., n, m)``.
    """
    _check_matrices("pinv", x)
    return by_values.pinv(x, rtol=rtol)


def qr(x: Array, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRFactors:
    """QR decompositions, by `portable.linalg.qr`.

    Parameters
    ----------
    x : Array
        ``(..., m, n)``, `float32`, `float64` or complex.
    mode : {"reduced", "complete"}
        Whether the factors have ``min(m, n)`` columns and rows in common, or `m`.

    Returns
    -------
    Q : Array
        ``(..., m, k)``, with orthonormal columns.
    R : Array
        ``(..., k, n)``, upper triangular.
    """
    _check_matrices("qr", x)
    if mode not in ("reduced", "complete"):
        raise ValueError(f"mode={mode!r}; qr has reduced, complete")
    return factorisations.qr(x, mode=mode)  # type: ignore[no-any-return]


def slogdet(x: Array, /) -> Slogdet:
    """Signs of determinants and logarithms of their absolute values, by `portable.linalg.slogdet`.

    Parameters
    ----------
    x : Array
        ``(..., n, n)``, `float32`, `float64` or complex.

    Returns
    -------
    sign : Array
        ``(...)``: -1, 0 or 1, or a complex number of size 1.
    logabsdet : Array
        ``(...)``, real; minus infinity of singular matrices.

    Raises
    ------
    ValueError
        If matrices are not square.
    """
    _check_matrices("slogdet", x)
    return factorisations.slogdet(x)


def solve(x1: Array, x2: Array, /) -> Array:
    """The solution of ``x1 @ x = x2``, by `portable.linalg.solve`.

    Parameters
    ----------
    x1 : Array
        ``(..., n, n)``, `float32`, `float64` or complex.
    x2 : Array
        ``(..., n, k)``, the right-hand sides as columns, or ``(n,)``, one for all matrices.

    Returns
    -------
    Array
        In the common dtype.

    Raises
    ------
    ValueError
        If a matrix is not square or singular (`numpy.linalg.LinAlgError`), or the shapes do not fit
        together.
    """
    check_operands("solve", (x1, x2))
    _check_matrices("solve", x1)
    _check_matrices("solve", x2)
    kind = promoted_on(x1.device, x1.dtype, x2.dtype)
    return factorisations.solve(
        manipulation.astype(x1, kind, copy=False), manipulation.astype(x2, kind, copy=False)
    )


def svd(x: Array, /, *, full_matrices: bool = True) -> decompositions.SVDResult:
    """Singular value decompositions: `portable.linalg.svd`.

    Parameters
    ----------
    x : Array
        ``(..., m, n)``, `float32`, `float64` or complex.
    full_matrices : bool
        Whether `U` and `Vh` are square, and not as narrow as ``k = min(m, n)``.

    Returns
    -------
    U : Array
        ``(..., m, m)`` or ``(..., m, k)``, with orthonormal columns.
    S : Array
        ``(..., k)``, real, in descending order.
    Vh : Array
        ``(..., n, n)`` or ``(..., k, n)``, with orthonormal rows.

    Raises
    ------
    ValueError
        NumPy's ``LinAlgError`` for NaN and infinities.
    """
    _check_matrices("svd", x)
    return decompositions.svd(x, full_matrices=full_matrices)


def svdvals(x: Array, /) -> Array:
    """Singular values, those of real matrices by `portable.linalg.svdvals`.

    Those of complex ones are `svd`'s.

    Parameters
    ----------
    x : Array
        ``(..., m, n)``, `float32`, `float64` or complex.

    Returns
    -------
    Array
        ``(..., min(m, n))``, real, in descending order.

    Raises
    ------
    ValueError
        For NaN and infinities, as a flag read from the device says.
    """
    _check_matrices("svdvals", x)
    return decompositions.svd(x).S if x.dtype.is_complex else singular_values(x)


def matrix_rank(x: Array, /, *, rtol: float | Array | None = None) -> Array:
    """The number of singular values that are not negligible; see `svdvals`.

    Parameters
    ----------
    x : Array
        ``(..., m, n)``, `float32`, `float64` or complex.
    rtol : float or Array, optional
        Those up to so much of the greatest are, an array for each matrix; by default ``max(m, n)``
        times the dtype's `eps`.

    Returns
    -------
    Array
        ``(...)``, of `int64`.
    """
    _check_matrices("matrix_rank", x)
    return by_values.matrix_rank(x, rtol=rtol)


# -- on the device --------------------------------------------------------------------------


@taped
def outer(x1: Array, x2: Array, /) -> Array:
    """The products of all pairs of elements of two vectors.

    Parameters
    ----------
    x1, x2 : Array
        Vectors of m and n elements.

    Returns
    -------
    Array
        Of shape (m, n), in the common dtype.

    Raises
    ------
    ShapeError
        If one of them is no vector.
    DTypeError
        If the dtypes have none in common.
    """
    check_arrays("outer", x1, x2)
    if x1.ndim != 1 or x2.ndim != 1:
        raise ShapeError(f"outer takes vectors, not shapes {x1.shape} and {x2.shape}")
    return multiply(x1[:, None], x2[None, :])


def matrix_power(x: Array, n: int, /) -> Array:
    """Matrices to an integer power, by squaring.

    Parameters
    ----------
    x : Array
        ``(..., n, n)``, numbers.
    n : int
        The power; negative ones go through `inv`.

    Raises
    ------
    ShapeError
        If matrices are not square.
    """
    check_arrays("matrix_power", x)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"matrix_power takes square matrices, not shape {x.shape}")
    if n < 0:
        x, n = inv(x), -n
    result = None
    while n:
        if n & 1:
            result = x if result is None else matmul(result, x)
        n >>= 1
        if n:
            x = matmul(x, x)
    if result is None:
        one = eye(x.shape[-1], dtype=x.dtype, device=x.device)
        return manipulation.copied(manipulation.broadcast_to(one, x.shape))
    return manipulation.copied(result) if result is x else result


def vector_norm(
    x: Array,
    /,
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    ord: float = 2,
) -> Array:
    """The norm of vectors: the sum of sizes to the power of `ord`, to the power of ``1 / ord``.

    Parameters
    ----------
    x : Array
        Floating-point numbers.
    axis : int or tuple of int, optional
        Along which; None means all elements as one vector.
    keepdims : bool
        Whether these dimensions stay, with an extent of 1.
    ord : float
        Infinity gives the greatest size, minus infinity the least, 0 how many are not zero.

    Returns
    -------
    Array
        Real, of the precision of `x`. Squares beyond the range of the dtype are not scaled. Of n
        numbers, relative to the norm, within ``(10 + 4 log2(n)) eps`` for `ord` 1 and 2, since
        sizes and squares are added up as by `portable.array.sum`.

    Raises
    ------
    ValueError
        For the least size of nothing.
    """
    check_operands("vector_norm", (x,))
    if x.dtype.kind not in "fc":
        raise DTypeError(f"vector_norm takes floating-point numbers, not {x.dtype.name}")
    if ord in (1, 2, inf, -inf):
        merged = merged_sizes(x, ord, axis=axis, keepdims=keepdims)
        return manipulation.astype(sqrt(merged), x.dtype.real, copy=False) if ord == 2 else merged
    return _norm(x, float(ord), axis, keepdims)  # type: ignore[no-any-return]


def _write_norm(x: Any, ord: float, axis: Any, keepdims: bool) -> Callable[..., Any]:
    """What norms by sums of powers have to do for arrays like `x`."""
    axes = normalized_axes(axis, x.ndim)
    kind = x.dtype.real
    recipe = Recipe(x)
    if ord == 0:
        terms = converted(recipe, recorded(recipe, OPERATIONS["not_equal"], x, 0), kind)
    else:
        sizes = recorded(recipe, OPERATIONS["abs"], x) if x.dtype.is_complex else x
        terms = recorded(recipe, _POWER_OF_SIZE, sizes, ord)
    total = summed_in(recipe, terms, axes, kind) if axes else terms
    if ord:
        total = recorded(recipe, OPERATIONS["pow"], total, 1 / ord)
    kept = reduced_shape(x.shape, axes, keepdims)
    return recipe.finish(total.shaped(kept))


_norm: Final = Plans(_write_norm)


_POWER_OF_SIZE: Final = Operation("vector_norm", "f", power_of_size)


def matrix_norm(
    x: Array, /, *, keepdims: bool = False, ord: float | Literal["fro", "nuc"] | None = "fro"
) -> Array:
    """The norm of matrices.

    Parameters
    ----------
    x : Array
        ``(..., m, n)``, floating-point numbers.
    keepdims : bool
        Whether the last two dimensions stay, with an extent of 1.
    ord : {"fro", "nuc", 1, -1, 2, -2, inf, -inf}
        The root of the sum of squares; the sum of the singular values; the greatest or least sum of
        a column, singular value, or sum of a row. Singular values are those of `svdvals`.

    Returns
    -------
    Array
        Real, of the precision of `x`.
    """
    check_arrays("matrix_norm", x)
    if x.ndim < 2:
        raise ShapeError(f"matrix_norm takes matrices, not an array of shape {x.shape}")
    result = _matrix_norm(x, ord)
    return manipulation.reshape(result, (*result.shape, 1, 1)) if keepdims else result


def _matrix_norm(x: Array, ord: Any) -> Array:
    if ord in ("fro", None):
        return vector_norm(x, axis=(-2, -1))
    if ord == "nuc":
        return summed(svdvals(x), axis=-1)
    if ord in (2, -2):
        values = svdvals(x)
        return vector_norm(values, axis=-1, ord=inf if ord > 0 else -inf)
    if ord not in (1, -1, inf, -inf):
        raise ValueError(
            f"matrix_norm has no ord={ord!r}; it has 'fro', 'nuc', 1, 2, inf, -1, -2, -inf"
        )
    sums = vector_norm(x, axis=-2 if ord in (1, -1) else -1, ord=1)
    return vector_norm(sums, axis=-1, ord=inf if ord > 0 else -inf)
