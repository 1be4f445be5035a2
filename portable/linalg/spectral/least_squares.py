"""Least squares, by QR where matrices have full rank, else by singular values."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType
from portable.errors import ShapeError
from portable.interchange.libraries import takes_other_libraries
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.linalg.factorisations.layout import layout_of
from portable.linalg.factorisations.matrices import checked_dtype, copied, workspace
from portable.linalg.factorisations.products import multiplied, subtract_product
from portable.linalg.factorisations.reflectors import Triangularisation
from portable.linalg.factorisations.right_sides import RightSides, right_sides
from portable.linalg.factorisations.triangle_kernels import ADJOINT, UPPER_TRIANGLE
from portable.linalg.factorisations.triangles import solved_in_place
from portable.linalg.spectral.by_values import count_values, scale_rows, tolerance_of
from portable.linalg.spectral.decompositions import svd
from portable.namespace import device_of_arrays
from portable.typing import ArrayT

_ITEMS: Final = 64
_LINE: Final = 64
_TILE: Final = (32, 8, 1)


class LeastSquares(NamedTuple):
    """The result of `lstsq`.

    Attributes
    ----------
    x : array, shape (..., n, k) or (..., n)
        The solution.
    residuals : array, shape (..., k) or (...)
        The sum of the squares of ``|b - a @ x|`` for each right-hand side, real; zeros if
        m <= n and all rows are independent.
    rank : array of int64, shape (...)
        The matrices' ranks.
    singular_values : array, shape (..., min(m, n)), or None
        None where QR did, which takes none.
    """

    x: Any
    residuals: Any
    rank: Any
    singular_values: Any


@takes_other_libraries
def lstsq(a: ArrayT, b: ArrayT, *, rcond: float | None = None) -> LeastSquares:
    """Least-squares solutions: the `x` of least norm that minimises ``|b - a @ x|``.

    Parameters
    ----------
    a : array, shape (..., m, n)
        ``float16``, ``float32``, ``float64``, ``complex64`` or ``complex128``, any strides; it is
        not changed, nor is `b`.
    b : array, shape (..., m, k) or (m,)
        Of the same dtype and device: right-hand sides as columns, or one for all matrices. Leading
        dimensions broadcast with those of `a`.
    rcond : float, optional
        Singular values up to this part of a matrix' largest count as zero. By default ``max(m, n)``
        times the dtype's epsilon, and none are made where R of `qr` has nothing on its diagonal
        that is as small beside the largest number there.

    Returns
    -------
    LeastSquares
        The solutions, residuals, ranks and singular values; ``float32`` for ``float16``.

    Raises
    ------
    ShapeError, DTypeError, DeviceMismatchError
        For shapes that do not fit together, other or mixed dtypes, arrays of two devices.
    numpy.linalg.LinAlgError
        As of `svd`, where singular values are needed. It is a ``ValueError``.

    Notes
    -----
    By `qr`, of the conjugate transpose if m < n, which takes a part of the time of `svd`. R's
    diagonal tells of most matrices of lower rank, not of all (Kahan's): give `rcond` to be sure.

    Examples
    --------
    >>> import numpy as np
    >>> import portable
    >>> a = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> portable.linalg.lstsq(a, np.array([1.0, 3.0, 5.0])).x.round(12)
    array([1., 2.])
    >>> portable.linalg.lstsq(np.ones((2, 2)), np.ones(2)).x.round(12)
    array([0.5, 0.5])
    """
    device = device_of_arrays(a, b)
    kind = checked_dtype("lstsq", a=a, b=b)
    if a.ndim < 2:
        raise ShapeError(f"lstsq takes matrices (..., m, n), not shape {tuple(a.shape)}")
    sides = right_sides("lstsq", a, b)
    m, n = (int(x) for x in a.shape[-2:])
    lead = sides.shape[: len(sides.shape) - (1 if sides.is_vector else 2)]
    if rcond is None or not (sides.batch and m and n):
        solution = _by_reflectors(device, a, b, sides, kind)
        if solution is not None:
            rank = device.from_numpy(np.full(lead, min(m, n), np.int64))
            return LeastSquares(*solution, rank, None)
    return _by_values(device, (a, b), sides, kind, rcond)


def _by_reflectors(
    device: Device, a: Any, b: Any, sides: RightSides, kind: DType
) -> tuple[Any, Any] | None:
    """Solutions and residuals; None where a matrix has not full rank."""
    m, n = (int(x) for x in a.shape[-2:])
    failures = device.empty((sides.batch,), kl.i32)
    whole = workspace(device, sides.batch, max(m, n), max(1, sides.columns), kind)
    given = whole[:, :, : sides.columns]
    count = sides.batch * sides.columns
    if count:
        _solve(device, a, b, sides, given, failures, kind)
        if min(m, n) and np.any(device.to_numpy(failures)):
            return None
    some = count > 0 and n > 0
    x = sides.result(device, given[:, :n]) if some else device.empty(sides.shape, kind)
    return x, _residuals(device, given, n, sides, kind)


def _residuals(device: Device, left: Any, first: int, sides: RightSides, kind: DType) -> Any:
    """Sums of squares of what is left of right-hand sides from a row on."""
    lead = sides.shape[: len(sides.shape) - (1 if sides.is_vector else 2)]
    shape = lead if sides.is_vector else (*lead, sides.columns)
    residuals = device.empty(shape, kind.real)
    count = sides.batch * sides.columns
    if count:
        items = 1 if device.capabilities.single_work_items else _ITEMS
        sum_squares[groups(count), items](
            left, first, residuals[None] if not shape else residuals, shape or (1,)
        )
    return residuals


def _by_values(
    device: Device, given: tuple[Any, Any], sides: RightSides, kind: DType, rcond: float | None
) -> LeastSquares:
    """By singular values and vectors."""
    a, b = given
    m, n = (int(x) for x in a.shape[-2:])
    batch, columns, reshape = sides.batch, sides.columns, device.namespace().reshape
    matrices = copied(device, a, device.empty((batch, m, n), kind), from_lead=sides.lead)
    right = device.empty((batch, m, columns), kind)
    copied(device, b[:, None] if sides.is_vector else b, right, from_lead=sides.lead)
    u, values, vh = svd(matrices)
    k = min(m, n)
    tolerance, ranks = tolerance_of(device, rcond, (m, n), values), device.empty((batch,), kl.i64)
    count_values[batch, _LINE](values, tolerance, ranks)
    scaled = device.empty((batch, k, n), kind)
    scale_rows[(n, k, batch), _TILE](vh, values, tolerance, scaled)
    lead = sides.shape[: len(sides.shape) - (1 if sides.is_vector else 2)]
    ranks, values = reshape(ranks, lead), reshape(values, (*lead, k))
    if not sides.size:
        residuals = _residuals(device, right, m, sides, kind)
        return LeastSquares(device.empty(sides.shape, kind), residuals, ranks, values)
    inner, x = (device.empty((batch, size, columns), kind) for size in (k, n))
    multiplied(device, inner, u, right, adjoint=True)
    multiplied(device, x, scaled, inner, adjoint=True)
    subtract_product(device, right, matrices, x)
    return LeastSquares(
        sides.result(device, x), _residuals(device, right, 0, sides, kind), ranks, values
    )


def _solve(
    device: Device, a: Any, b: Any, sides: RightSides, given: Any, failures: Any, kind: DType
) -> None:
    """Solutions take the place of the first rows of `given`, what is left over that of others."""
    m, n = (int(x) for x in a.shape[-2:])
    wide, layout = m < n, layout_of(kind, device.capabilities)
    columns = b[:, None] if sides.is_vector else b
    copied(device, columns, given, from_lead=sides.lead)
    least = min(m, n)
    if least == 0:
        return
    size = sides.batch, max(m, n), least
    triangle = Triangularisation.of(device, size, kind, sides.columns)
    work, reflectors = triangle.work, triangle.reflectors
    copied(device, a, work, from_lead=sides.lead, turned=wide)
    triangle.run()
    items = 1 if device.capabilities.single_work_items else _ITEMS
    room = max(m, n) * 2.0 ** (-23 if kind.real.itemsize == 4 else -52)
    small_diagonals[groups(sides.batch), items](work, failures, room)
    if not wide:
        reflectors.apply(given, adjoint=True)
    solved_in_place(device, work, given[:, :least], ADJOINT if wide else UPPER_TRIANGLE, layout)
    if wide:
        reflectors.apply(given, adjoint=False)


@kernel
def small_diagonals(r: kl.Array, failures: kl.Array, room: kl.Scalar) -> None:
    """For each triangle 0, or the first place of its diagonal that is small, counted from 1."""
    batch, n = kl.group_id(0), r.shape[2]
    best = kl.cast(0, r.dtype.real)
    for i in kl.workgroup_range(n):
        best = kl.maximum(best, kl.abs(r[batch, i, i]))
    least = kl.workgroup_reduce(kl.maximum, best) * kl.cast(room, best.dtype)
    first = n
    for i in kl.workgroup_range(n):
        if kl.abs(r[batch, i, i]) <= least:
            first = kl.minimum(first, i)
    first = kl.workgroup_reduce(kl.minimum, first)
    if kl.local_id(0) == 0:
        failures[batch] = kl.where(first < n, first + 1, 0)


@kernel
def sum_squares(
    x: kl.Array, start: kl.Scalar, sums: kl.Array, shape: tuple[kl.Scalar, ...]
) -> None:
    """The sums of squares of columns from a row on, a workgroup each."""
    batch, column = kl.group_id(0) // x.shape[2], kl.group_id(0) % x.shape[2]
    total = kl.cast(0, sums.dtype)
    for i in kl.workgroup_range(start, x.shape[1]):
        size = kl.abs(x[batch, i, column])
        total = total + size * size
    total = kl.workgroup_reduce(kl.add, total)
    if kl.local_id(0) == 0:
        index = ()
        rest = kl.group_id(0)
        for d in kl.static_range(sums.ndim - 1, -1, -1):
            index = (rest % shape[d], *index)  # type: ignore[assignment]
            rest = rest // shape[d]
        sums[*index] = total
