"""Linear algebra by elimination: rank, echelon forms, systems, inverses, null spaces."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from portable import lang as kl
from portable import registry
from portable.errors import DataError, ShapeError
from portable.gf2.elimination import Elimination
from portable.gf2.layout import Order, take_rows
from portable.gf2.matrix import BitMatrix, takes_dense
from portable.gf2.product import require_one_device, transpose

_TILE = (16, 8)


class Echelon(NamedTuple):
    """The result of `row_echelon`.

    Attributes
    ----------
    rows : BitMatrix
        Of the shape of the matrix, its empty rows last.
    pivots : array of int64, shape (rank,)
        The leading columns of the rows that are not empty, ascending.
    """

    rows: BitMatrix
    pivots: NDArray[np.int64]


@takes_dense
def row_echelon(a: BitMatrix, *, reduced: bool = False) -> Echelon:
    """The row echelon form: each row leads (with its lowest column) further right than that before.

    Parameters
    ----------
    a : BitMatrix, shape (m, n)
        Not changed.
    reduced : bool
        Whether pivots' columns are eliminated from the rows above too, which makes the form unique.
        It costs up to three times as much.

    Returns
    -------
    Echelon
        The form, on the device of `a`, and the pivots' columns.

    Notes
    -----
    Blocks of 64 columns: pivots are chosen from the block alone, and all other columns follow by
    tables of combinations. PLE decomposition and the method of the four Russians: M. Albrecht, C.
    Pernet, "Efficient decomposition of dense matrices over GF(2)" (2011).
    """
    if 0 in a.shape:
        return Echelon(a.copy(), np.empty(0, np.int64))
    work = _eliminated(a, None, reduced)
    rows, pivots = _sorted(work.pivots())
    filled = np.full(a.shape[0], -1, np.int64)
    filled[: rows.size] = rows
    return Echelon(work.matrix(rows=filled), pivots)


@takes_dense
def rank(a: BitMatrix) -> int:
    """The rank of a matrix."""
    if 0 in a.shape:
        return 0
    return int(np.count_nonzero(_eliminated(a, None, reduced=False).pivots() >= 0))


@takes_dense
def solve(a: BitMatrix, b: BitMatrix) -> BitMatrix:
    """A solution x of ``a @ x = b``, its free variables zero.

    Parameters
    ----------
    a : BitMatrix, shape (m, n)
        Of any rank.
    b : BitMatrix, shape (m, k)
        On the same device; of arrays also a vector, shape (m,).

    Returns
    -------
    BitMatrix, shape (n, k)
        One solution; all others are it and sums of columns of ``nullspace(a)``. A vector for one.

    Raises
    ------
    ShapeError
        If the numbers of rows differ.
    DataError
        If there is no solution.
    """
    require_one_device("solve", a, b)
    if a.shape[0] != b.shape[0]:
        raise ShapeError(
            f"solve: a has {a.shape[0]} rows, b has {b.shape[0]}; both need as many, one for each "
            "equation"
        )
    if 0 in a.shape or not b.shape[1]:
        if a.shape[0] and b.to_words().any():
            raise DataError("solve: there is no solution: a has no columns, and b is not zero")
        return BitMatrix.zeros((a.shape[1], b.shape[1]), device=a.device)
    work = _eliminated(a, b, reduced=True)
    left = work.unreduced()
    if left.size:
        raise DataError(
            f"solve: there is no solution: row {left[0]} of a is a sum of others, and that of b is "
            "not the same sum"
        )
    return _solution(work, a, b.shape[1])


@takes_dense
def inverse(a: BitMatrix) -> BitMatrix:
    """The inverse of a square matrix.

    Raises
    ------
    ShapeError
        Unless it is square.
    DataError
        If it is singular.
    """
    m, n = a.shape
    if m != n:
        raise ShapeError(f"inverse takes a square matrix, not shape {a.shape}")
    if not n:
        return a.copy()
    work = _eliminated(a, BitMatrix.identity(n, device=a.device), reduced=True)
    pivots = int(np.count_nonzero(work.pivots() >= 0))
    if pivots < n:
        raise DataError(f"inverse: the matrix is singular; its rank is {pivots}, not {n}")
    return _solution(work, a, n)


@takes_dense
def nullspace(a: BitMatrix) -> BitMatrix:
    """A basis of all x with ``a @ x = 0``.

    Parameters
    ----------
    a : BitMatrix, shape (m, n)
        Of rank r.

    Returns
    -------
    BitMatrix, shape (n, n - r)
        A column for each free variable, in which this one is 1 and all other free ones 0.
    """
    n = a.shape[1]
    if 0 in a.shape:
        return BitMatrix.identity(n, device=a.device)
    rows, pivots = row_echelon(a, reduced=True)
    free = np.setdiff1d(np.arange(n), pivots)
    if not free.size:
        return BitMatrix.zeros((n, 0), device=a.device)
    unset = np.full(free.size, -1)
    depends = transpose(_rows_of(transpose(rows), free, unset))
    places, units = np.full(n, -1), np.full(n, -1)
    places[pivots] = np.arange(pivots.size)
    units[free] = np.arange(free.size)
    return _rows_of(depends, places, units)


def _eliminated(a: BitMatrix, beside: BitMatrix | None, reduced: bool) -> Elimination:
    work = Elimination.of(a, Order(a.shape[1], backward=False), beside=beside, reduced=reduced)
    work.run()
    return work


def _sorted(pivots: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows that are pivots, by their columns, and these."""
    rows = np.flatnonzero(pivots >= 0)
    rows = rows[np.argsort(pivots[rows])]
    return rows, pivots[rows]


def _solution(work: Elimination, a: BitMatrix, columns: int) -> BitMatrix:
    """Variables that are pivots are what stands beside their rows."""
    rows, pivots = _sorted(work.pivots())
    places = np.full(a.shape[1], -1, np.int64)
    places[pivots] = rows
    return work.beside(columns, places)


def _rows_of(a: BitMatrix, rows: NDArray[np.int64], units: NDArray[np.int64]) -> BitMatrix:
    """Rows by their numbers and single ones by their columns, -1 for none."""
    device = a.device
    with registry.use(device):
        out = device.empty((rows.size, int(a.words.shape[1])), kl.u64)
        if out.shape[1]:
            held = [device.from_numpy(x.astype(np.int32)) for x in (rows, units)]
            take_rows[(int(out.shape[1]), rows.size), _TILE](a.words, *held, out)
        return BitMatrix(out, a.shape[1], device=device)
