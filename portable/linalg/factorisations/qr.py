"""The QR factorisation.

That of tall matrices is made by the Cholesky factors of their Gram matrices, where it is accurate.
``A = Q R`` with ``A^H A = R^H R``: two products instead of a reflector for each column, once more
for Q, which makes it orthonormal to roundoff ("CholeskyQR2": Y. Yamamoto, Y. Nakatsukasa, Y.
Yanagisawa, T. Fukaya, "Roundoff error analysis of the CholeskyQR2 algorithm", ETNA 44 (2015)).
Gram matrices of single precision are made in double, so that condition numbers may be as large as
single precision tells apart. The second Gram matrix says how far from orthonormal the first Q was:
where that is too far, reflectors do the work. On GPUs those of few columns in single precision are
multiplied by inverses in double, which errs no more than solving in single does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from portable.backend import Device
from portable.dtypes import DType, float32, float64
from portable.errors import ShapeError
from portable.interchange.libraries import takes_other_libraries
from portable.lang.launch.geometry import groups
from portable.linalg.factorisations.cholesky import Factoring
from portable.linalg.factorisations.copy_kernels import UPPER
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
    ROOM,
    add_grams,
    deviations,
    gram_rows,
    multiply_rows,
)
from portable.linalg.factorisations.triangle_kernels import ADJOINT, UPPER_TRIANGLE
from portable.linalg.factorisations.triangles import solved_in_place
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


def is_tall(shape: tuple[int, ...], kind: DType, device: Device) -> bool:
    """Whether matrices of this shape are to be tried so."""
    m, n = shape[-2:]
    if kind.is_complex or not device.capabilities.float64:
        return False
    return n > 1 and m >= _TALL * n and m * n >= _LEAST and n <= _WIDEST


class Tall(NamedTuple):
    """What makes Q and R of tall matrices of a size.

    Attributes
    ----------
    factorings : two Factoring
        Of Gram matrices.
    triangles : three arrays of float64, shape (batch, n, n)
        R of both, and their product; what is below diagonals is zeros.
    far : array of float64, shape (batch,)
        The square of the distance of the first Q's Gram matrix from the identity; NaN where one
        before had no factor.
    """

    factorings: tuple[Factoring, Factoring]
    triangles: tuple[Any, Any, Any]
    far: Any

    @staticmethod
    def of(device: Device, batch: int, n: int) -> Tall:
        """That of matrices of so many columns."""
        first, second = (Factoring.of(device, batch, n, float64) for _ in range(2))
        x, y, z = (workspace(device, batch, n, n, float64) for _ in range(3))
        return Tall((first, second), (x, y, z), device.empty((batch,), float64))

    def run(self, device: Device, a: Any, q: Any, by: Division) -> None:
        """Enqueues it, for matrices and what becomes Q, which may be the same."""
        source, (add_up, divide) = a, by
        for number, factoring in enumerate(self.factorings):
            batch, n = (int(x) for x in factoring.work.shape[:2])
            gram, triangle = factoring.work[:, :, :n], self.triangles[number]
            add_up(source, gram)
            if number == 1:
                items = 1 if device.capabilities.single_work_items else _ITEMS
                count = min(items, device.capabilities.max_workgroup)
                deviations[groups(batch), count](gram, self.far)
            factoring.run()
            factoring.put(device, triangle, (batch,))
            divide(source, triangle, q)
            source = q
        multiplied(device, self.triangles[2], self.triangles[1], self.triangles[0])

    def is_orthonormal(self, device: Device) -> bool:
        """Whether Q is, its first Gram matrix having been near enough to the identity."""
        return bool(np.all(device.to_numpy(self.far) < _NEAR**2))


Division = tuple[Callable[[Any, Any], object], Callable[[Any, Any, Any], object]]
"""What makes Gram matrices, told matrices and where to, and what divides matrices by R."""


def _by_solving(device: Device, size: tuple[int, int, int], kind: DType) -> Division:
    """In place: in double precision to add up, in the matrices' own to divide."""
    batch, m, n = size
    wide = None if kind is float64 else workspace(device, batch, m, n, float64)
    rounded = None if kind is float64 else workspace(device, batch, n, n, kind)
    layout = layout_of(kind, device.capabilities)

    def add_up(a: Any, gram: Any) -> None:
        factor = a if wide is None else copied(device, a, wide)
        multiplied(device, gram, factor, factor, adjoint=True)

    def divide(a: Any, r: Any, q: Any) -> None:
        divisor = r
        if rounded is not None:
            divisor = copied(device, r, rounded)
            copied(device, rounded, r)
        solved_in_place(device, divisor, turned(q), ADJOINT, layout)

    return add_up, divide


def _by_multiplying(device: Device, size: tuple[int, int, int]) -> Division:
    """By tiles of rows, with R's inverse in double precision."""
    batch, m, n = size
    units = _EACH * device.capabilities.compute_units
    shares = max(1, min(units // batch, -(-m // (_EACH * DEPTH))))
    grams = device.empty((batch, shares, EDGE, EDGE), float64)
    inverse = device.empty((batch, n, n), float64)
    layout, count = layout_of(float64, device.capabilities), groups(batch * shares)

    def add_up(a: Any, gram: Any) -> None:
        gram_rows[count, _ITEMS](a, grams)
        add_grams[groups(batch * n), _ITEMS](grams, gram)

    def divide(a: Any, r: Any, q: Any) -> None:
        copied(device, inverse[:, :0, :0], inverse, eye=True)
        solved_in_place(device, r, inverse, UPPER_TRIANGLE, layout)
        multiply_rows[count, _ITEMS](a, inverse, q, shares)

    return add_up, divide


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
    (1989)), while the panels of the next one are made.
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
    def size(self) -> tuple[int, int, int]:
        """How many matrices, and their rows and columns."""
        m, n = (int(x) for x in self.a.shape[-2:])
        return batch_of(self.a.shape), m, n

    @property
    def tall(self) -> bool:
        """Whether a Gram matrix is to be tried."""
        _, m, n = self.size
        is_reduced = int(self.r.shape[-2]) == n
        return is_reduced and not self.narrow and is_tall((m, n), self.kind, self.device)

    @property
    def narrow(self) -> bool:
        """Whether its rows are tiles of workgroups, which round numbers of single precision."""
        (_, m, n), can = self.size, self.device.capabilities
        if can.single_work_items or self.kind is not float32 or int(self.r.shape[-2]) != n:
            return False
        fits = can.local_memory_most >= ROOM and can.max_workgroup >= _ITEMS
        return fits and n <= EDGE and is_tall((m, n), self.kind, self.device)


def _by_gram_matrices(asked: Asked) -> Iterator[None]:
    device, a, kind, *_ = asked
    size = batch, m, n = asked.size
    room = batch * m * n * (8 if kind is float64 else 8 + kind.itemsize)
    key = "tall", size, kind

    def made() -> tuple[Tall, Any, Callable[[], object]]:
        tall, work = Tall.of(device, batch, n), workspace(device, *size, kind)
        by = _by_solving(device, size, kind)
        return tall, work, repeated(device, partial(tall.run, device, work, work, by))

    tall, work, run = cached_plan(device, key, made, room)
    copied(device, a, work, from_lead=lead_of(a.shape))
    run()
    yield from _results(asked, tall, work)


def _by_rows(asked: Asked) -> Iterator[None]:
    device, a, kind, q, _ = asked
    size = batch, _, n = asked.size
    in_place = q is not None and q.ndim == 2
    whole = q[None] if in_place else device.empty(size, kind)
    source = a[None] if a.ndim == 2 else copied(device, a, whole, from_lead=lead_of(a.shape))

    def made() -> tuple[Tall, Division]:
        return Tall.of(device, batch, n), _by_multiplying(device, size)

    tall, by = cached_plan(device, ("rows", size), made)
    tall.run(device, source, whole, by)
    yield from _results(asked, tall, None if in_place else whole)


def _results(asked: Asked, tall: Tall, q: Any) -> Iterator[None]:
    """Copies factors to where they are asked for, if they are right; `q` unless it is there."""
    device, lead = asked.device, lead_of(asked.a.shape)
    if tall.is_orthonormal(device):
        copied(device, tall.triangles[2], asked.r, to_lead=lead, kept=UPPER)
        if asked.q is not None and q is not None:
            copied(device, q, asked.q, to_lead=lead)
        yield


def _by_reflectors(asked: Asked) -> Iterator[None]:
    device, a, kind, q, r = asked
    lead, columns, (batch, m, n) = lead_of(a.shape), 0 if q is None else q.shape[-1], asked.size

    def made() -> tuple[Any, Any, Callable[[], object]]:
        triangle, square = Triangularisation.of(device, asked.size, kind, columns), None
        if columns:
            square = workspace(device, batch, m, columns, kind)
            if is_transposed(triangle.work):
                square = turned(workspace(device, batch, columns, m, kind))

        def run() -> None:
            triangle.run()
            if square is not None:
                copied(device, square[:, :0, :0], square, eye=True)
                triangle.reflectors.apply(square, adjoint=False, unit=True)

        return triangle.work, square, repeated(device, run)

    room = batch * m * (n + min(m, n) + columns) * kind.itemsize
    work, square, run = cached_plan(device, ("qr", asked.size, kind, columns), made, room)
    moved(device, a, work, from_lead=lead)
    run()
    if r.shape[-2]:
        moved(device, work, r, to_lead=lead, kept=UPPER, edge=min(m, n))
    if q is not None:
        moved(device, square, q, to_lead=lead)
    yield


FACTORISATIONS: Final = Ways[Asked, None](
    "QR",
    Way("by rows", "gram_rows add_grams deviations multiply_rows", _by_rows, lambda x: x.narrow),
    Way("of Gram matrices", "deviations put_factors", _by_gram_matrices, lambda x: x.tall),
    Way("by reflectors", "", _by_reflectors),
)
"""How matrices are made orthonormal and triangular."""
