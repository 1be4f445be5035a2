"""Least squares of matrices of full rank."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType
from portable.errors import ShapeError
from portable.interchange.libraries import takes_other_libraries
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.linalg.factorisations.layout import layout_of
from portable.linalg.factorisations.matrices import (
    checked_dtype,
    copied,
    require_success,
    workspace,
)
from portable.linalg.factorisations.reflectors import Triangularisation
from portable.linalg.factorisations.right_sides import RightSides, right_sides
from portable.linalg.factorisations.triangles import Triangle, solved_in_place
from portable.namespace import device_of_arrays
from portable.typing import ArrayT

__all__ = ["LeastSquares", "lstsq", "small_diagonals", "sum_squares"]

_DEFICIENT: Final = (
    "lstsq: the matrix has not full rank: column {} depends on those before it (row, if there are "
    "fewer rows). Use portable.linalg.pinv, or numerics.lstsq, which go by singular values"
)
_ITEMS: Final = 64
_UPPER: Final = Triangle(backward=True, turned=False, conjugate=False, unit=False)
_ADJOINT: Final = Triangle(backward=False, turned=True, conjugate=True, unit=False)


class LeastSquares(NamedTuple):
    """What `lstsq` gives.

    Attributes
    ----------
    x : array, shape (..., n, k) or (..., n)
        The solution.
    residuals : array, shape (..., k) or (...)
        The sum of the squares of ``|b - a @ x|`` for each right-hand side, real; zeros if m <= n.
    """

    x: Any
    residuals: Any


@takes_other_libraries
def lstsq(a: ArrayT, b: ArrayT) -> LeastSquares:
    """The `x` for which ``a @ x`` is nearest to `b`, of those the shortest, for full rank.

    Parameters
    ----------
    a : array, shape (..., m, n)
        ``float16``, ``float32``, ``float64``, ``complex64`` or ``complex128``, any strides; it is
        not changed, nor is `b`.
    b : array, shape (..., m, k) or (m,)
        Of the same dtype and device: right-hand sides as columns, or one for all matrices. Leading
        dimensions broadcast with those of `a`.

    Returns
    -------
    LeastSquares
        The solutions and residuals; ``float32`` for ``float16``.

    Raises
    ------
    ShapeError, DTypeError, DeviceMismatchError
        For shapes that do not fit together, other or mixed dtypes, arrays of two devices.
    numpy.linalg.LinAlgError
        If a matrix has not full rank: a number on R's diagonal is below ``max(m, n)`` times the
        unit roundoff times the largest one. It is a ``ValueError``.

    Notes
    -----
    By `qr`, of the conjugate transpose if m < n. `portable.numerics.lstsq` goes by singular values,
    which any rank will do for.

    Examples
    --------
    >>> import numpy as np
    >>> import portable
    >>> a = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> portable.linalg.lstsq(a, np.array([1.0, 3.0, 5.0])).x.round(12)
    array([1., 2.])
    """
    device = device_of_arrays(a, b)
    kind = checked_dtype("lstsq", a=a, b=b)
    if a.ndim < 2:
        raise ShapeError(f"lstsq takes matrices (..., m, n), not shape {tuple(a.shape)}")
    sides = right_sides("lstsq", a, b)
    m, n = (int(x) for x in a.shape[-2:])
    lead = sides.shape[: len(sides.shape) - (1 if sides.is_vector else 2)]
    shape = lead if sides.is_vector else (*lead, sides.columns)
    residuals = device.empty(shape, kind.real)
    failures = device.empty((sides.batch,), kl.i32)
    whole = workspace(device, sides.batch, max(m, n), max(1, sides.columns), kind)
    given = whole[:, :, : sides.columns]
    count = sides.batch * sides.columns
    if count:
        _solve(device, a, b, sides, given, failures, kind)
    if count:
        items = 1 if device.capabilities.lone_work_items else _ITEMS
        sum_squares[groups(count), items](
            given, n, residuals[None] if not shape else residuals, shape or (1,)
        )
    some = count > 0 and n > 0
    x = sides.result(device, given[:, :n]) if some else device.empty(sides.shape, kind)
    if count and min(m, n):
        require_success(device, failures, _DEFICIENT)
    return LeastSquares(x, residuals)


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
    items = 1 if device.capabilities.lone_work_items else _ITEMS
    room = max(m, n) * 2.0 ** (-23 if kind.real.itemsize == 4 else -52)
    small_diagonals[groups(sides.batch), items](work, failures, room)
    if not wide:
        reflectors.apply(given, adjoint=True)
    solved_in_place(device, work, given[:, :least], _ADJOINT if wide else _UPPER, layout)
    if wide:
        reflectors.apply(given, adjoint=False)


@kernel
def small_diagonals(r: Any, failures: Any, room: Any) -> None:
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
def sum_squares(x: Any, start: Any, sums: Any, shape: Any) -> None:
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
