"""The LU factorisation with partial pivoting, and what it solves."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType
from portable.errors import ShapeError
from portable.interchange.libraries import takes_other_libraries
from portable.lang.launch.geometry import groups
from portable.linalg.dense.kernels import clear
from portable.linalg.factorisations.layout import Layout, layout_of
from portable.linalg.factorisations.matrices import (
    batch_of,
    checked_dtype,
    copied,
    lead_of,
    order_of,
    require_success,
    workspace,
)
from portable.linalg.factorisations.panel_kernels import (
    eliminate_panel,
    exchange_alone,
    exchange_rows,
    gather_rows,
    order_rows,
)
from portable.linalg.factorisations.products import subtract_product
from portable.linalg.factorisations.right_sides import RightSides, right_sides
from portable.linalg.factorisations.triangles import Triangle, solved_in_place
from portable.namespace import device_of_arrays
from portable.typing import ArrayT

__all__ = ["Eliminated", "LUFactors", "eliminated", "inv", "lu_factor", "lu_solve", "solve"]

_UNIT_LOWER: Final = Triangle(backward=False, turned=False, conjugate=False, unit=True)
_UPPER: Final = Triangle(backward=True, turned=False, conjugate=False, unit=False)
_SINGULAR: Final = "{}: the matrix is singular: there is no pivot in column {{}}"
_LINE: Final = 64
_TILE: Final = (32, 8, 1)
_TILE_ALONE: Final = (64, 1, 1)
_ORDERED_BYTES: Final = 32 * 1024


class LUFactors(NamedTuple):
    """Factors of matrices whose rows have changed places, ``P a = L U``.

    Attributes
    ----------
    lu : array, shape (..., m, n)
        L below the diagonal, ones on it left out, and U.
    pivots : array of int32, shape (..., min(m, n))
        The row, counted from 0, that each has changed places with, in turn, as SciPy gives it.
    """

    lu: Any
    pivots: Any


class Eliminated(NamedTuple):
    """Factors of a batch on their device.

    Attributes
    ----------
    lu : array, shape (batch, m, n)
        L and U.
    pivots : array of i32, shape (batch, min(m, n))
        Exchanges.
    failures : array of i32, shape (batch,)
        For each matrix 0, or the first column without a pivot, counted from 1.
    """

    lu: Any
    pivots: Any
    failures: Any


@takes_other_libraries
def lu_factor(a: ArrayT) -> LUFactors:
    """The LU factorisation with partial pivoting.

    Parameters
    ----------
    a : array, shape (..., m, n)
        ``float16``, ``float32``, ``float64``, ``complex64`` or ``complex128``, any strides; it is
        not changed.

    Returns
    -------
    LUFactors
        The factors, ``float32`` for ``float16``, and the exchanges. Of singular matrices U has a 0
        on its diagonal.

    Raises
    ------
    ShapeError, DTypeError
        Unless there are two dimensions or more; for other dtypes.

    Notes
    -----
    By halves of the columns (S. Toledo, "Locality of reference in LU decomposition with partial
    pivoting", SIAM J. Matrix Anal. Appl. 18 (1997)); on every device one workgroup
    for each matrix eliminates a panel of a few columns through memory, rows change places in one
    pass for each panel, and all else is products.

    Examples
    --------
    >>> import numpy as np
    >>> import portable
    >>> portable.linalg.lu_factor(np.array([[1.0, 2.0], [4.0, 4.0]])).pivots
    array([1, 1], dtype=int32)
    """
    device = device_of_arrays(a)
    kind = checked_dtype("lu_factor", a=a)
    if a.ndim < 2:
        raise ShapeError(f"lu_factor takes matrices (..., m, n), not shape {tuple(a.shape)}")
    m, n = (int(x) for x in a.shape[-2:])
    lead = tuple(int(x) for x in a.shape[:-2])
    lu, pivots = device.empty((*lead, m, n), kind), device.empty((*lead, min(m, n)), kl.i32)
    if batch_of(a.shape) == 0 or min(m, n) == 0:
        return LUFactors(lu, pivots)
    found = eliminated(device, a, kind)
    copied(device, found.lu, lu, to_lead=lead or (1,))
    copied(device, found.pivots[:, None], pivots[..., None, :], to_lead=lead or (1,))
    return LUFactors(lu, pivots)


@takes_other_libraries
def lu_solve(factors: LUFactors, b: ArrayT) -> ArrayT:
    """The solution of ``a @ x = b`` by the factors that `lu_factor` gives of `a`.

    Parameters
    ----------
    factors : LUFactors, or (lu, pivots)
        Of square matrices.
    b : array, shape (..., n, k) or (n,)
        Of the factors' dtype and device: right-hand sides as columns, or one for all matrices.

    Returns
    -------
    array, shape (..., n, k) or (..., n)
        The solution, not finite where a matrix is singular.

    Raises
    ------
    ShapeError, DTypeError, DeviceMismatchError
        For shapes that do not fit together, other or mixed dtypes, arrays of two devices.

    Examples
    --------
    >>> import numpy as np
    >>> import portable
    >>> factors = portable.linalg.lu_factor(np.array([[1.0, 2.0], [4.0, 4.0]]))
    >>> portable.linalg.lu_solve(factors, np.array([5.0, 12.0]))
    array([1., 2.])
    """
    lu, pivots = factors
    device = device_of_arrays(lu, b)
    kind, n = checked_dtype("lu_solve", lu=lu, b=b), order_of("lu_solve", lu)
    sides = right_sides("lu_solve", lu, b)
    if not sides.size:
        return device.empty(sides.shape, kind)  # type: ignore[no-any-return]
    work = copied(device, lu, workspace(device, sides.batch, n, n, kind), from_lead=sides.lead)
    whole = device.empty((sides.batch, 1, n), kl.i32)
    copied(device, pivots[..., None, :], whole, from_lead=sides.lead)
    found = Eliminated(work, whole[:, 0], None)
    return _solution(device, found, b, sides, kind)  # type: ignore[no-any-return]


@takes_other_libraries
def solve(a: ArrayT, b: ArrayT) -> ArrayT:
    """The solution of ``a @ x = b``, by LU with partial pivoting.

    Parameters
    ----------
    a : array, shape (..., n, n)
        ``float16``, ``float32``, ``float64``, ``complex64`` or ``complex128``, any strides; it is
        not changed, nor is `b`.
    b : array, shape (..., n, k) or (n,)
        Of the same dtype and device: right-hand sides as columns, or one for all matrices. Leading
        dimensions broadcast with those of `a`.

    Returns
    -------
    array, shape (..., n, k) or (..., n)
        The solution; ``float32`` for ``float16``.

    Raises
    ------
    ShapeError, DTypeError, DeviceMismatchError
        For shapes that do not fit together, other or mixed dtypes, arrays of two devices.
    numpy.linalg.LinAlgError
        If a matrix is singular: a column has no pivot but 0, which a flag tells that is read in the
        end. It is a ``ValueError``.

    Notes
    -----
    ``|a x - b|`` is bounded by a modest multiple of the unit roundoff times ``|a| |x|``, unless
    pivots grow, which random matrices' do not (L. N. Trefethen, R. S. Schreiber, "Average-case
    stability of Gaussian elimination", SIAM J. Matrix Anal. Appl. 11 (1990)).

    Examples
    --------
    >>> import numpy as np
    >>> import portable
    >>> portable.linalg.solve(np.array([[3.0, 1.0], [1.0, 2.0]]), np.array([9.0, 8.0]))
    array([2., 3.])
    """
    device = device_of_arrays(a, b)
    kind = checked_dtype("solve", a=a, b=b)
    order_of("solve", a)
    sides = right_sides("solve", a, b)
    if not sides.size:
        return device.empty(sides.shape, kind)  # type: ignore[no-any-return]
    found = eliminated(device, a, kind, sides.lead)
    result = _solution(device, found, b, sides, kind)
    require_success(device, found.failures, _SINGULAR.format("solve"))
    return result  # type: ignore[no-any-return]


@takes_other_libraries
def inv(a: ArrayT) -> ArrayT:
    """Inverses, by LU with partial pivoting.

    Parameters
    ----------
    a : array, shape (..., n, n)
        ``float16``, ``float32``, ``float64``, ``complex64`` or ``complex128``, any strides; it is
        not changed.

    Returns
    -------
    array, shape (..., n, n)
        On the device of `a`; ``float32`` for ``float16``.

    Raises
    ------
    ShapeError, DTypeError
        Unless matrices are square; for other dtypes.
    numpy.linalg.LinAlgError
        If a matrix is singular. It is a ``ValueError``.

    Notes
    -----
    The solution of ``a @ x = 1``: see `solve`, which takes less time and errs less where a product
    with an inverse is wanted.

    Examples
    --------
    >>> import numpy as np
    >>> import portable
    >>> portable.linalg.inv(np.array([[2.0, 0.0], [0.0, 4.0]]))
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    device = device_of_arrays(a)
    kind, n = checked_dtype("inv", a=a), order_of("inv", a)
    shape = tuple(int(x) for x in a.shape)
    if 0 in shape:
        return device.empty(shape, kind)  # type: ignore[no-any-return]
    found = eliminated(device, a, kind)
    sides = RightSides(lead_of(shape), shape, n, n, is_vector=False)
    result = _solution(device, found, None, sides, kind)
    require_success(device, found.failures, _SINGULAR.format("inv"))
    return result  # type: ignore[no-any-return]


def _solution(device: Device, found: Eliminated, b: Any, sides: RightSides, kind: DType) -> Any:
    """By factors, of right-hand sides, or of the identity."""
    layout = layout_of(kind, device.capabilities)
    work = workspace(device, sides.batch, sides.rows, sides.columns, kind)
    lone = device.capabilities.lone_work_items
    columns = b[:, None] if sides.is_vector else b
    gather_rows[(sides.columns, sides.rows, sides.batch), _TILE_ALONE if lone else _TILE](
        columns, sides.lead, ordered(device, found), work, EYE=b is None
    )
    solved_in_place(device, found.lu, work, _UNIT_LOWER, layout)
    solved_in_place(device, found.lu, work, _UPPER, layout)
    return sides.result(device, work)


def ordered(device: Device, found: Eliminated) -> Any:
    """Which row stands where after all exchanges: an array of i32, shape (batch, m)."""
    batch, m = int(found.lu.shape[0]), int(found.lu.shape[1])
    orders = device.empty((batch, m), kl.i32)
    can = device.capabilities
    items = 1 if can.lone_work_items else min(64, can.max_workgroup)
    held = min(_ORDERED_BYTES, can.local_memory) // 8
    order_rows[groups(batch), items](found.pivots, orders, HELD=held)
    return orders


# -- the factorisation ----------------------------------------------------------------------------


def eliminated(
    device: Device, a: Any, kind: DType, lead: tuple[int, ...] | None = None
) -> Eliminated:
    """The factors of matrices that are not empty.

    Parameters
    ----------
    device : Device
        Where.
    a : array, shape (..., m, n)
        The matrices.
    kind : DType
        What is computed in.
    lead : tuple of int, optional
        Leading dimensions that those of `a` broadcast to.
    """
    lead = lead_of(a.shape) if lead is None else lead
    m, n = (int(x) for x in a.shape[-2:])
    layout = layout_of(kind, device.capabilities)
    batch = batch_of((*lead, m, n))
    lu = copied(device, a, workspace(device, batch, m, n, kind), from_lead=lead)
    pivots, failures = device.empty((batch, min(m, n)), kl.i32), device.empty((batch,), kl.i32)
    clear[batch, _LINE](failures)
    room = device.empty((batch, m, layout.panel), kind)
    elimination = _Elimination(device, lu, room, pivots, failures, layout)
    elimination.columns(0, min(m, n))
    if n > m:
        elimination.solve(0, m, n)
    return Eliminated(lu, pivots, failures)


class _Elimination(NamedTuple):
    """A factorisation on its way."""

    device: Device
    lu: Any
    room: Any
    pivots: Any
    failures: Any
    layout: Layout

    def columns(self, first: int, stop: int) -> None:
        """Factors columns from the diagonal down: the left half, then what it leaves of the right.

        Rows change places in all columns.
        """
        panel = self.layout.panel
        if stop - first <= panel:
            self._panel(first, stop)
            return
        middle = first + panel * -(-(stop - first) // (2 * panel))
        self.columns(first, middle)
        self.solve(first, middle, stop)
        lu = self.lu
        subtract_product(
            self.device,
            lu[:, middle:, middle:stop],
            lu[:, middle:, first:middle],
            lu[:, first:middle, middle:stop],
        )
        self.columns(middle, stop)

    def solve(self, first: int, middle: int, stop: int) -> None:
        """U right of a triangle of L."""
        triangle = self.lu[:, first:middle, first:middle]
        rows = self.lu[:, first:middle, middle:stop]
        solved_in_place(self.device, triangle, rows, _UNIT_LOWER, self.layout)

    def _panel(self, first: int, stop: int) -> None:
        layout, batch = self.layout, int(self.lu.shape[0])
        eliminate_panel[groups(batch), layout.items](
            self.lu, self.room, self.pivots, self.failures, first, stop, LAYOUT=layout
        )
        others = int(self.lu.shape[2]) - (stop - first)
        if others > 0:
            self._exchange(first, stop, others)

    def _exchange(self, first: int, stop: int, others: int) -> None:
        """Rows of all columns but a panel's change places as it has it."""
        layout, batch = self.layout, int(self.lu.shape[0])
        strip = {"STRIP": layout.strip, "COUNT": layout.panel}
        if self.device.capabilities.lone_work_items:
            strips = -(-int(self.lu.shape[2]) // layout.strip)
            exchange_alone[groups(batch * strips), 1](
                self.lu, self.pivots, first, stop, strips, LANES=layout.lanes, **strip
            )
            return
        strips = -(-others // layout.strip)
        exchange_rows[groups(batch * strips), layout.items](
            self.lu, self.pivots, first, stop, strips, **strip
        )
