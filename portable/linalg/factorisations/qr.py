"""The QR factorisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from portable.backend import Device
from portable.dtypes import DType
from portable.errors import ShapeError
from portable.interchange.libraries import takes_other_libraries
from portable.linalg.factorisations.copy_kernels import UPPER
from portable.linalg.factorisations.matrices import (
    batch_of,
    checked_dtype,
    copied,
    is_turned,
    lead_of,
    moved,
    turned,
    workspace,
)
from portable.linalg.factorisations.reflectors import Triangularisation
from portable.linalg.factorisations.tall import is_tall, orthonormalised
from portable.linalg.products.repeats import kept_plan, repeated
from portable.namespace import device_of_arrays
from portable.typing import ArrayT

Mode = Literal["reduced", "complete", "r"]
"""Which factors are wanted."""

MODES: tuple[Mode, ...] = ("reduced", "complete", "r")


class QRFactors(NamedTuple):
    """Factors ``Q R`` of matrices.

    Attributes
    ----------
    Q : array, shape (..., m, k)
        With orthonormal columns.
    R : array, shape (..., k, n)
        Upper triangular.
    """

    Q: Any
    R: Any


@takes_other_libraries
def qr(a: ArrayT, *, mode: Mode = "reduced") -> Any:
    """The QR factorisation.

    Parameters
    ----------
    a : array, shape (..., m, n)
        ``float16``, ``float32``, ``float64``, ``complex64`` or ``complex128``, any strides; it is
        not changed.
    mode : {"reduced", "complete", "r"}
        Whether the factors have ``k = min(m, n)`` columns and rows in common, or `m`, or only R of
        k rows is wanted.

    Returns
    -------
    QRFactors, or array of shape (..., k, n) with ``mode="r"``
        On the device of `a`; ``float32`` for ``float16``. R's diagonal is real and of either sign.

    Raises
    ------
    ShapeError, DTypeError, ValueError
        Unless there are two dimensions or more; for other dtypes; for other modes.

    Notes
    -----
    By Householder reflectors. A workgroup eliminates a panel of a few columns; a block of
    reflectors is applied to the rest by products (R. Schreiber, C. Van Loan, "A storage-efficient
    WY representation for products of Householder transformations", SIAM J. Sci. Stat. Comput. 10
    (1989)), its halves one after the other (E. Elmroth, F. Gustavson, "Applying recursion to serial
    and parallel QR factorization leads to better performance", IBM J. Res. Dev. 44 (2000)).
    Tall real matrices with well-conditioned columns, which is found out, take two Cholesky factors
    of Gram matrices instead: see `portable.linalg.factorisations.tall`.
    ``Q R - a`` and ``Q^H Q - 1`` are modest multiples of the unit roundoff, whatever the rank.
    Beside the results some copies of the matrix are held.

    Examples
    --------
    >>> import numpy as np
    >>> import portable
    >>> portable.linalg.qr(np.array([[3.0, 1.0], [4.0, 2.0]]), mode="r").round(12)
    array([[-5. , -2.2],
           [ 0. ,  0.4]])
    """
    if mode not in MODES:
        raise ValueError(f"mode={mode!r}; qr has {', '.join(MODES)}")
    device = device_of_arrays(a)
    kind = checked_dtype("qr", a=a)
    if a.ndim < 2:
        raise ShapeError(f"qr takes matrices (..., m, n), not shape {tuple(a.shape)}")
    m, n = (int(x) for x in a.shape[-2:])
    lead = tuple(int(x) for x in a.shape[:-2])
    k = m if mode == "complete" else min(m, n)
    r = device.empty((*lead, k, n), kind)
    q = None if mode == "r" else device.empty((*lead, m, k), kind)
    if batch_of(a.shape):
        _factor(device, a, kind, q, r)
    return r if q is None else QRFactors(q, r)


def _factor(device: Device, a: Any, kind: DType, q: Any, r: Any) -> None:
    """Writes the factors of matrices; `q` may be None."""
    lead, batch = lead_of(a.shape), batch_of(a.shape)
    m, n = (int(x) for x in a.shape[-2:])
    if 0 in (m, n):
        for out in (r, q):
            if out is not None and 0 not in out.shape:
                copied(device, a, out, from_lead=lead, to_lead=lead, eye=out is q)
        return
    if r.shape[-2] == n and is_tall((m, n), kind, device):
        tall = orthonormalised(device, a, kind)
        if tall is not None:
            copied(device, tall.triangle, r, to_lead=lead, kept=UPPER)
            if q is not None:
                copied(device, tall.work, q, to_lead=lead)
            return
    columns = 0 if q is None else int(q.shape[-1])
    plan = _plan(device, (batch, m, n), kind, columns)
    moved(device, a, plan.work, from_lead=lead)
    plan.run()
    if r.shape[-2]:
        moved(device, plan.work, r, to_lead=lead, kept=UPPER, edge=min(m, n))
    if q is not None:
        moved(device, plan.square, q, to_lead=lead)


class _Plan(NamedTuple):
    """Arrays for matrices of a size and columns of Q, and what makes these of the matrices."""

    work: Any
    square: Any
    run: Callable[[], object]


def _plan(device: Device, size: tuple[int, int, int], kind: DType, columns: int) -> _Plan:
    """What is kept for matrices of a size."""
    batch, m, n = size
    room = batch * m * (n + min(m, n) + columns) * kind.itemsize
    key = "qr", size, kind, columns
    return kept_plan(device, key, lambda: _made(device, size, kind, columns), room)


def _made(device: Device, size: tuple[int, int, int], kind: DType, columns: int) -> _Plan:
    triangle = Triangularisation.of(device, size, kind, columns)
    if not columns:
        return _Plan(triangle.work, None, repeated(device, triangle.run))
    square = workspace(device, size[0], size[1], columns, kind)
    if is_turned(triangle.work):
        square = turned(workspace(device, size[0], columns, size[1], kind))

    def run() -> None:
        triangle.run()
        copied(device, square[:, :0, :0], square, eye=True)
        triangle.reflectors.apply(square, adjoint=False, unit=True)

    return _Plan(triangle.work, square, repeated(device, run))
