"""The QR factorisation."""

from __future__ import annotations

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
    lead_of,
    workspace,
)
from portable.linalg.factorisations.reflectors import triangularised
from portable.linalg.factorisations.tall import is_tall, orthonormalised
from portable.namespace import device_of_arrays
from portable.typing import ArrayT

__all__ = ["MODES", "Mode", "QRFactors", "qr"]

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
    Beside the results two copies of the matrix are held.

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
    work = copied(device, a, workspace(device, batch, m, n, kind), from_lead=lead)
    if r.shape[-2] == n and is_tall((m, n), kind, device):
        triangle = orthonormalised(device, work, kind)
        if triangle is not None:
            copied(device, triangle, r, to_lead=lead, kept=UPPER)
            if q is not None:
                copied(device, work, q, to_lead=lead)
            return
        copied(device, a, work, from_lead=lead)
    reflectors = triangularised(device, work, kind)
    if r.shape[-2]:
        copied(device, work, r, to_lead=lead, kept=UPPER, edge=min(m, n))
    if q is not None:
        square = workspace(device, batch, m, int(q.shape[-1]), kind)
        copied(device, work[:, :0, :0], square, eye=True)
        reflectors.apply(square, adjoint=False, unit=True)
        copied(device, square, q, to_lead=lead)
