"""The LU factorisation with partial pivoting, and what it solves."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType
from portable.errors import ShapeError
from portable.interchange.libraries import takes_other_libraries
from portable.linalg.factorisations.elimination import (
    eliminated,
    factored_system,
    system,
)
from portable.linalg.factorisations.matrices import (
    batch_of,
    checked_dtype,
    copied,
    lead_of,
    moved,
    order_of,
    require_success,
)
from portable.linalg.factorisations.right_sides import RightSides, right_sides
from portable.namespace import device_of_arrays
from portable.typing import ArrayT

_SINGULAR: Final = "{}: the matrix is singular: there is no pivot in column {{}}"


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
    Workgroups eliminate slices of a panel's columns in registers, rows change places in one pass
    for each panel, and all else is products. Where work-items are alone, or columns too
    long for registers, by halves of the columns (S. Toledo, "Locality of reference in LU
    decomposition with partial pivoting", SIAM J. Matrix Anal. Appl. 18 (1997)).

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
    eliminated_matrix = eliminated(device, a, kind)
    moved(device, eliminated_matrix.lu, lu, to_lead=lead or (1,))
    copied(device, eliminated_matrix.pivots[:, None], pivots[..., None, :], to_lead=lead or (1,))
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
    device = device_of_arrays(lu, pivots, b)
    kind, n = checked_dtype("lu_solve", lu=lu, b=b), order_of("lu_solve", lu)
    sides = right_sides("lu_solve", lu, b)
    if not sides.size:
        return device.empty(sides.shape, kind)  # type: ignore[no-any-return]
    made = factored_system(device, (sides.batch, n), kind, sides.columns)
    moved(device, lu, made.factors.lu, from_lead=sides.lead)
    copied(device, pivots[..., None, :], made.factors.pivots[:, None], from_lead=sides.lead)
    copied(device, b[:, None] if sides.is_vector else b, made.sides, from_lead=sides.lead)
    made.run()
    return sides.result(device, made.sides)  # type: ignore[no-any-return]


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
        If a matrix is singular: a column has no pivot but 0, as a flag says that is read in the
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
    return _solved("solve", device, (a, b), kind, sides)  # type: ignore[no-any-return]


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
    sides = RightSides(lead_of(shape), shape, n, n, is_vector=False)
    return _solved("inv", device, (a, None), kind, sides)  # type: ignore[no-any-return]


def _solved(
    name: str, device: Device, given: tuple[Any, Any], kind: DType, sides: RightSides
) -> Any:
    """The solution for right-hand sides, or for the identity, where no matrix is singular."""
    (a, b), n = given, sides.rows
    made = system(device, (sides.batch, n, n), kind, sides.columns)
    moved(device, a, made.factors.lu, from_lead=sides.lead)
    if b is None:
        copied(device, made.sides[:, :0, :0], made.sides, eye=True)
    else:
        moved(device, b[:, None] if sides.is_vector else b, made.sides, from_lead=sides.lead)
    made.run()
    result = sides.result(device, made.sides)
    require_success(device, made.factors.failures, _SINGULAR.format(name))
    return result
