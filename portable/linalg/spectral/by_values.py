"""What singular value decompositions are good for: pseudo-inverses, ranks, polar decompositions."""

from __future__ import annotations

from math import prod
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import dtype
from portable.errors import ShapeError
from portable.interchange.libraries import takes_other_libraries
from portable.lang.kernel import kernel
from portable.linalg.base.operands import common_dtype
from portable.linalg.factorisations.matrices import copied
from portable.linalg.factorisations.products import multiplied
from portable.linalg.singular_values.svdvals import svdvals
from portable.linalg.spectral.decompositions import svd
from portable.namespace import device_of_arrays
from portable.primitives import copy, fill
from portable.typing import ArrayT

_TILE: Final = (32, 8, 1)
_LINE: Final = 64
_DTYPES: Final = (kl.f16, kl.f32, kl.f64, kl.c64, kl.c128)


class PolarResult(NamedTuple):
    """A matrix with orthonormal columns or rows, and a positive semidefinite one.

    Attributes
    ----------
    U : array, shape (..., m, n)
        Orthonormal columns, rows if m < n.
    P : array, shape (..., n, n) or (..., m, m)
        Hermitian.
    """

    U: Any
    P: Any


@kernel
def scale_rows(x: kl.Array, values: kl.Array, tolerance: kl.Array | None, out: kl.Array) -> None:
    """Rows multiplied with values; dimension 2 is the matrices.

    Or, where there is a tolerance, divided by values: those up to ``tolerance[i]`` times the
    largest count as 0.
    """
    column, row, matrix = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    if matrix < out.shape[0] and row < out.shape[1] and column < out.shape[2]:
        value = values[matrix, row]
        if tolerance is not None:
            least = values[matrix, 0] * tolerance[matrix]
            value = kl.where(value > least, 1 / value, value * 0)
        out[matrix, row, column] = x[matrix, row, column] * value


@kernel
def count_values(values: kl.Array, tolerance: kl.Array, ranks: kl.Array) -> None:
    """How many values exceed the tolerance times the largest."""
    matrix = kl.global_id(0)
    if matrix < ranks.shape[0]:
        rank = kl.cast(0, ranks.dtype)
        for i in range(values.shape[1]):
            if values[matrix, i] > values[matrix, 0] * tolerance[matrix]:
                rank = rank + 1
        ranks[matrix] = rank


@kernel
def make_hermitian(x: kl.Array, out: kl.Array) -> None:
    """The means of matrices and their conjugate transposes; dimension 2 is the matrices."""
    column, row, matrix = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    if matrix < out.shape[0] and row < out.shape[1] and column < out.shape[2]:
        other = x[matrix, column, row]
        other = kl.conj(other) if x.dtype.is_complex else other
        out[matrix, row, column] = (x[matrix, row, column] + other) * 0.5


@takes_other_libraries
def pinv(a: ArrayT, *, rtol: Any = None) -> ArrayT:
    """Pseudo-inverses of Moore and Penrose, computed on the device of `a`.

    Parameters
    ----------
    a : array, shape (..., m, n)
        As of `svd`.
    rtol : float or array, shape (...), optional
        Singular values up to so much of the largest count as zero, an array for each matrix; by
        default ``max(m, n)`` times the dtype's epsilon.

    Returns
    -------
    array, shape (..., n, m)

    Raises
    ------
    ShapeError, DTypeError, numpy.linalg.LinAlgError
        As `svd`.

    Examples
    --------
    >>> import numpy as np
    >>> import portable
    >>> portable.linalg.pinv(np.array([[2.0, 0.0], [0.0, 0.0]]))
    array([[0.5, 0. ],
           [0. , 0. ]])
    """
    device = device_of_arrays(a)
    left, values, right = _in_a_row(device, svd(a))
    (count, k), lead = (int(x) for x in values.shape), tuple(int(x) for x in a.shape[:-2])
    m, n = (int(x) for x in a.shape[-2:])
    kind = dtype(left.dtype)
    result = device.empty((count, n, m), kind)
    if 0 not in (count, m, n):
        scaled = device.empty((count, k, n), kind)
        tolerance = tolerance_of(device, rtol, (m, n), values)
        scale_rows[(n, k, count), _TILE](right, values, tolerance, scaled)
        product = device.empty((count, m, n), kind)
        multiplied(device, product, left, scaled)
        copied(device, product, result, turned=True)
    return device.namespace().reshape(result, (*lead, n, m))  # type: ignore[no-any-return]


@takes_other_libraries
def matrix_rank(a: ArrayT, *, rtol: Any = None) -> ArrayT:
    """Ranks: the number of singular values that are not negligible, computed on the device of `a`.

    Parameters
    ----------
    a : array, shape (..., m, n)
        As of `svd`.
    rtol : float or array, shape (...), optional
        As of `pinv`.

    Returns
    -------
    array, shape (...)
        Of ``int64``.

    Raises
    ------
    ShapeError, DTypeError, numpy.linalg.LinAlgError
        As `svd`; ValueError for NaN and infinities in real matrices.

    Examples
    --------
    >>> import numpy as np
    >>> import portable
    >>> int(portable.linalg.matrix_rank(np.ones((3, 2))))
    1
    """
    device = device_of_arrays(a)
    kind = common_dtype("matrix_rank", _DTYPES, a=a).register
    if a.ndim < 2:
        raise ShapeError(f"matrix_rank takes matrices (..., m, n), not shape {tuple(a.shape)}")
    lead, size = tuple(int(x) for x in a.shape[:-2]), tuple(int(x) for x in a.shape[-2:])
    ranks = device.empty((prod(lead),), kl.i64)
    if prod(lead) and min(size):
        values: Any = svd(a).S if kind.is_complex else svdvals(a)
        values = device.namespace().reshape(values, (prod(lead), min(size)))
        tolerance = tolerance_of(device, rtol, size, values)
        count_values[prod(lead), _LINE](values, tolerance, ranks)
    elif prod(lead):
        fill(ranks, 0)
    return device.namespace().reshape(ranks, lead)  # type: ignore[no-any-return]


@takes_other_libraries
def polar(a: ArrayT, *, side: Literal["right", "left"] = "right") -> PolarResult:
    """Polar decompositions ``a = U @ P``, or ``a = P @ U``, computed on the device of `a`.

    Parameters
    ----------
    a : array, shape (..., m, n)
        As of `svd`.
    side : {"right", "left"}
        On which side of `U` the semidefinite factor is.

    Returns
    -------
    U : array, shape (..., m, n)
        Orthonormal columns, rows if m < n.
    P : array, shape (..., n, n), of the left side (..., m, m)
        Hermitian and positive semidefinite.

    Raises
    ------
    ShapeError, DTypeError, numpy.linalg.LinAlgError
        As `svd`.
    ValueError
        For another side.

    Examples
    --------
    >>> import numpy as np
    >>> import portable
    >>> u, p = portable.linalg.polar(np.array([[0.0, -2.0], [1.0, 0.0]]))
    >>> bool(np.allclose(p, [[1, 0], [0, 2]]))
    True
    """
    if side not in ("right", "left"):
        raise ValueError(f"side={side!r}; polar takes 'right' or 'left'")
    device = device_of_arrays(a)
    left, values, right = _in_a_row(device, svd(a))
    kind, lead = dtype(left.dtype), tuple(int(x) for x in a.shape[:-2])
    count, k = (int(x) for x in values.shape)
    m, n = (int(x) for x in a.shape[-2:])
    order = n if side == "right" else m
    direction, factor = device.empty((count, m, n), kind), device.empty((count, order, order), kind)
    if 0 not in (count, m, n):
        multiplied(device, direction, left, right)
        rows = right
        if side == "left":
            rows = copied(device, left, device.empty((count, k, m), kind), turned=True)
        scaled = device.empty((count, k, order), kind)
        scale_rows[(order, k, count), _TILE](rows, values, None, scaled)
        product = device.empty((count, order, order), kind)
        multiplied(device, product, rows, scaled, adjoint=True)
        make_hermitian[(order, order, count), _TILE](product, factor)
    elif count and order:
        fill(factor, 0)
    reshape = device.namespace().reshape
    return PolarResult(reshape(direction, (*lead, m, n)), reshape(factor, (*lead, order, order)))


def _in_a_row(device: Device, parts: Any) -> Any:
    """Results with one leading dimension."""
    left, values, right = parts
    lead = tuple(int(x) for x in values.shape[:-1])
    count = prod(lead)
    reshape = device.namespace().reshape
    return tuple(
        reshape(x, (count, *(int(n) for n in x.shape[len(lead) :]))) for x in (left, values, right)
    )


def tolerance_of(device: Device, rtol: Any, size: tuple[int, ...], values: Any) -> Any:
    """What counts as zero beside the largest value, of each matrix."""
    count, kind = int(values.shape[0]), dtype(values.dtype)
    if rtol is None:
        rtol = max(size) * float(np.finfo(kind.numpy).eps)
    tolerance = device.empty((count,), kind)
    if hasattr(rtol, "shape") and rtol.shape != ():
        given = rtol if device.owns(rtol) else device.from_numpy(np.asarray(rtol))
        given = device.namespace().reshape(given, (-1,))
        if int(given.shape[0]) not in (1, count):
            raise ShapeError(f"rtol of shape {tuple(rtol.shape)} does not go with {count} matrices")
        copy(given, tolerance)
    else:
        fill(tolerance, float(rtol))
    return tolerance
