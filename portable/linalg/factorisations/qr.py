"""The QR factorisation.

That of tall matrices is made by the Cholesky factors of their Gram matrices, where it is accurate.
``A = Q R`` with ``A^H A = R^H R``: two products instead of a reflector for each column, once more
for Q, which makes it orthonormal to roundoff ("CholeskyQR2": Y. Yamamoto, Y. Nakatsukasa, Y.
Yanagisawa, T. Fukaya, "Roundoff error analysis of the CholeskyQR2 algorithm", ETNA 44 (2015)).
Gram matrices of single precision are made in double, so that condition numbers may be as large as
single precision tells apart. The second Gram matrix says how far from orthonormal the first Q was:
where that is too far, reflectors do the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from portable.backend import Device
from portable.dtypes import DType, float32, float64
from portable.errors import ShapeError
from portable.interchange.libraries import takes_other_libraries
from portable.lang.launch.geometry import groups
from portable.linalg.factorisations.cholesky import Factoring
from portable.linalg.factorisations.copy_kernels import UPPER, put_factors
from portable.linalg.factorisations.layout import layout_of
from portable.linalg.factorisations.matrices import (
    batch_of,
    checked_dtype,
    copied,
    is_transposed,
    lead_of,
    moved,
    turned,
    workspace,
)
from portable.linalg.factorisations.products import multiplied
from portable.linalg.factorisations.reflectors import Triangularisation
from portable.linalg.factorisations.tall_kernels import (
    DEPTH,
    EDGE,
    add_grams,
    deviations,
    gram_rows,
    multiply_rows,
)
from portable.linalg.factorisations.triangles import Triangle, solved_in_place
from portable.linalg.products.repeats import cached_plan, repeated
from portable.namespace import device_of_arrays
from portable.tune.ways import Way, Ways
from portable.typing import ArrayT

_TALL: Final = 8
"""So many times as many rows as columns."""

_LEAST: Final = 1 << 18
"""Elements from which on it is worth a flag that is read."""

_WIDEST: Final = 1024
_NEAR: Final = 0.25
"""How far from the identity the Gram matrix of the first Q may be, in Frobenius' norm."""

_ITEMS: Final = 256
_EACH: Final = 4
"""Workgroups of a compute unit, and tiles of rows that each has at least."""

_UPPER: Final = Triangle(backward=True, turned=False, conjugate=False, unit=False)
_ADJOINT: Final = Triangle(backward=False, turned=True, conjugate=True, unit=False)


def is_tall(shape: tuple[int, ...], kind: DType, device: Device) -> bool:
    """Whether matrices of this shape are to be tried so."""
    m, n = shape[-2:]
    if kind.is_complex or not device.capabilities.float64:
        return False
    return n > 1 and m >= _TALL * n and m * n >= _LEAST and n <= _WIDEST


class Tall(NamedTuple):
    """Arrays for tall matrices of a size, and what makes Q of them in place, and R.

    Attributes
    ----------
    work : array, shape (batch, m, n)
        The matrices, which become Q.
    triangle : array of float64, shape (batch, n, n)
        R; what is below its diagonal is zeros.
    far : array of float64, shape (batch,)
        The square of the distance of the first Q's Gram matrix from the identity; NaN where one
        before had no factor.
    run : callable
        Enqueues it.
    """

    work: Any
    triangle: Any
    far: Any
    run: Callable[[], object]


def _tall_plan(device: Device, size: tuple[int, int, int], kind: DType) -> Tall:
    batch, m, n = size
    work, far = workspace(device, batch, m, n, kind), device.empty((batch,), float64)
    wide = work if kind is float64 else workspace(device, batch, m, n, float64)
    grams = [Factoring.of(device, batch, n, float64) for _ in range(2)]
    triangles = [workspace(device, batch, n, n, float64) for _ in range(3)]
    rounded = None if kind is float64 else workspace(device, batch, n, n, kind)

    def run() -> None:
        for gram, triangle in zip(grams, triangles, strict=False):
            if wide is not work:
                copied(device, work, wide)
            multiplied(device, gram.work, wide, wide, adjoint=True)
            if gram is grams[1]:
                _measure(device, gram.work, far)
            gram.run()
            _divide(device, work, gram, triangle, rounded, kind)
        multiplied(device, triangles[2], triangles[1], triangles[0])

    return Tall(work, triangles[2], far, repeated(device, run))


def _measure(device: Device, gram: Any, far: Any) -> None:
    """How far from the identity Gram matrices are."""
    items = 1 if device.capabilities.single_work_items else _ITEMS
    count = min(items, device.capabilities.max_workgroup)
    deviations[groups(int(gram.shape[0])), count](gram, far)


def _is_orthonormal(device: Device, far: Any) -> bool:
    """Whether Q is, its first Gram matrix having been near enough to the identity."""
    return bool(np.all(device.to_numpy(far) < _NEAR**2))


def _divide(device: Device, work: Any, gram: Factoring, r: Any, rounded: Any, kind: DType) -> None:
    """Divides matrices by the Cholesky factors of their Gram matrices, which go to `r`."""
    copied(device, gram.work, r, kept=UPPER)
    batch = int(r.shape[0])
    put_factors[groups(batch * gram.factors.shape[1]), gram.layout.items](
        gram.factors, r, (batch,), LAYOUT=gram.layout, TRANSPOSED=False
    )
    if rounded is not None:
        copied(device, r, rounded)
        copied(device, rounded, r)
    layout = layout_of(kind, device.capabilities)
    divisor = r if rounded is None else rounded
    solved_in_place(device, divisor, turned(work), _ADJOINT, layout)


class _Rows(NamedTuple):
    """What narrow matrices of a size need beside themselves and Q.

    Attributes
    ----------
    grams : array of float64, shape (batch, shares, EDGE, EDGE)
        What shares of the rows add to Gram matrices.
    factorings : two Factoring
        Of these.
    inverse, triangle : array of float64, shape (batch, n, n)
        The inverse of a factor, and the product of both.
    far : array of float64, shape (batch,)
        As of `Tall`.
    """

    grams: Any
    factorings: tuple[Factoring, Factoring]
    inverse: Any
    triangle: Any
    far: Any

    @staticmethod
    def of(device: Device, batch: int, m: int, n: int) -> _Rows:
        """That of matrices of a size."""
        units = _EACH * device.capabilities.compute_units
        shares = max(1, min(units // batch, -(-m // (_EACH * DEPTH))))
        grams = device.empty((batch, shares, EDGE, EDGE), float64)
        inverse, triangle = (device.empty((batch, n, n), float64) for _ in range(2))
        first, second = (Factoring.of(device, batch, n, float64) for _ in range(2))
        return _Rows(grams, (first, second), inverse, triangle, device.empty((batch,), float64))

    def run(self, device: Device, a: Any, q: Any) -> None:
        """Makes Q and R of matrices."""
        batch, shares = (int(x) for x in self.grams.shape[:2])
        source, count = a, groups(batch * shares)
        for factoring in self.factorings:
            gram_rows[count, _ITEMS](source, self.grams)
            gram = factoring.work
            add_grams[groups(int(gram.shape[0] * gram.shape[1])), _ITEMS](self.grams, gram)
            if source is q:
                _measure(device, gram, self.far)
            factoring.run()
            copied(device, self.inverse[:, :0, :0], self.inverse, eye=True)
            layout, upper = factoring.layout, self._upper(factoring)
            solved_in_place(device, upper, self.inverse, _UPPER, layout)
            multiply_rows[count, _ITEMS](source, self.inverse, q, shares)
            source = q
        first, second = map(self._upper, self.factorings)
        multiplied(device, self.triangle, second, first)

    def _upper(self, factoring: Factoring) -> Any:
        """A factor, which is one block."""
        n = int(factoring.work.shape[1])
        return factoring.factors[:, 0, :n, :n]


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
    of Gram matrices instead: see `portable.linalg.factorisations.qr`.
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
    lead = lead_of(a.shape)
    if 0 in a.shape[-2:]:
        for out in (r, q):
            if out is not None and 0 not in out.shape:
                copied(device, a, out, from_lead=lead, to_lead=lead, eye=out is q)
        return
    next(FACTORISATIONS.of(Asked(device, a, kind, q, r)))


class Asked(NamedTuple):
    """What is asked of ways of factoring: where, matrices, what in, and where factors go."""

    device: Device
    a: Any
    kind: DType
    q: Any
    r: Any

    @property
    def tall(self) -> bool:
        """Whether a Gram matrix is to be tried."""
        m, n = (int(x) for x in self.a.shape[-2:])
        is_reduced = int(self.r.shape[-2]) == n
        return is_reduced and not self.narrow and is_tall((m, n), self.kind, self.device)

    @property
    def narrow(self) -> bool:
        """Whether its rows are tiles of workgroups, which round numbers of single precision."""
        (m, n), can = (int(x) for x in self.a.shape[-2:]), self.device.capabilities
        if can.single_work_items or self.kind is not float32 or int(self.r.shape[-2]) != n:
            return False
        fits = n <= EDGE == layout_of(float64, can).block and can.max_workgroup >= _ITEMS
        return fits and is_tall((m, n), self.kind, self.device)


def _by_gram_matrices(asked: Asked) -> Iterator[None]:
    device, a, kind, q, r = asked
    lead, batch, (m, n) = lead_of(a.shape), batch_of(a.shape), (int(x) for x in a.shape[-2:])
    room = batch * m * (n * kind.itemsize + (n * 8 if kind is not float64 else 0))
    key = "tall", (batch, m, n), kind
    tall = cached_plan(device, key, lambda: _tall_plan(device, (batch, m, n), kind), room)
    copied(device, a, tall.work, from_lead=lead)
    tall.run()
    if _is_orthonormal(device, tall.far):
        copied(device, tall.triangle, r, to_lead=lead, kept=UPPER)
        if q is not None:
            copied(device, tall.work, q, to_lead=lead)
        yield


def _by_rows(asked: Asked) -> Iterator[None]:
    device, a, kind, q, r = asked
    lead, batch, (m, n) = lead_of(a.shape), batch_of(a.shape), (int(x) for x in a.shape[-2:])
    is_one = a.ndim == 2
    out = device.empty((batch, m, n), kind) if q is None or not is_one else q[None]
    rows = cached_plan(device, ("rows", batch, m, n), lambda: _Rows.of(device, batch, m, n))
    source = a[None] if is_one else copied(device, a, out, from_lead=lead)
    rows.run(device, source, out)
    if _is_orthonormal(device, rows.far):
        copied(device, rows.triangle, r, to_lead=lead, kept=UPPER)
        if q is not None and not is_one:
            copied(device, out, q, to_lead=lead)
        yield


def _by_reflectors(asked: Asked) -> Iterator[None]:
    device, a, kind, q, r = asked
    lead, (m, n) = lead_of(a.shape), (int(x) for x in a.shape[-2:])
    columns = 0 if q is None else int(q.shape[-1])
    plan = _plan(device, (batch_of(a.shape), m, n), kind, columns)
    moved(device, a, plan.work, from_lead=lead)
    plan.run()
    if r.shape[-2]:
        moved(device, plan.work, r, to_lead=lead, kept=UPPER, edge=min(m, n))
    if q is not None:
        moved(device, plan.square, q, to_lead=lead)
    yield


FACTORISATIONS: Final = Ways[Asked, None](
    "QR",
    Way("by rows", "gram_rows add_grams deviations multiply_rows", _by_rows, lambda x: x.narrow),
    Way("of Gram matrices", "deviations put_factors", _by_gram_matrices, lambda x: x.tall),
    Way("by reflectors", "", _by_reflectors),
)
"""How matrices are made orthonormal and triangular."""


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
    return cached_plan(device, key, lambda: _made(device, size, kind, columns), room)


def _made(device: Device, size: tuple[int, int, int], kind: DType, columns: int) -> _Plan:
    triangle = Triangularisation.of(device, size, kind, columns)
    if not columns:
        return _Plan(triangle.work, None, repeated(device, triangle.run))
    square = workspace(device, size[0], size[1], columns, kind)
    if is_transposed(triangle.work):
        square = turned(workspace(device, size[0], columns, size[1], kind))

    def run() -> None:
        triangle.run()
        copied(device, square[:, :0, :0], square, eye=True)
        triangle.reflectors.apply(square, adjoint=False, unit=True)

    return _Plan(triangle.work, square, repeated(device, run))
