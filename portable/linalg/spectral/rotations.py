"""Singular and eigenvectors of many small matrices at once, a workgroup each.

One-sided Jacobi rotations (M. Hestenes, J. SIAM 6 (1958)) make the columns of a matrix orthogonal:
divided by their lengths, the singular values, they are left singular vectors, and what the
rotations make of the identity are right ones. All pairs of columns come up once a sweep, in the
rounds of a tournament, whose pairs are disjoint: each is the work of some neighbouring work-items,
which share its rows out. Left vectors of columns that vanished, and those beyond the columns, are
completed by Gram and Schmidt's method, twice.

A Hermitian matrix is shifted to be positive definite, by a bound of its eigenvalues: of such a
matrix, left singular vectors are eigenvectors. Eigenvalues are Rayleigh quotients.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import dtype
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.linalg.base.magnitude import scaled_by
from portable.linalg.base.parts import (
    absolute_square,
    conjugate,
    real_part,
    scaled,
)
from portable.linalg.singular_values.jacobi_kernels import (
    column_products,
    element_at,
    fetch,
    rank_of,
    scaled_columns,
    sweep_all,
    turn_columns,
)
from portable.linalg.singular_values.rotation_shapes import RotationShape, rotation_shape
from portable.linalg.spectral.reduction_kernels import lower_at

_POWERS: Final = 6
_MARGIN: Final = 2.5
"""The bound of eigenvalues is so many times what powers show, which may be a third too little."""


class Factors(NamedTuple):
    """Where results go, each with a first dimension of the matrices.

    Attributes
    ----------
    values : array, shape (count, columns)
        Singular values, the largest first, or eigenvalues, the least first.
    left : array, shape (count, rows of a, vectors)
        Left singular vectors or eigenvectors as columns.
    right : array, shape (count, vectors, columns of a)
        Right singular vectors, conjugated, as rows.
    status : array of i32, shape (count,)
        0 of a matrix that was decomposed, 1 where rotations did not end, 2 where it holds NaN or
        an infinity, and zeros were decomposed instead.
    """

    values: Any
    left: Any
    right: Any
    status: Any


@kernel
def svd_by_rotations(a: kl.Array, out: Factors, scratch: kl.Array, *, SHAPE: RotationShape) -> None:
    """Singular values and vectors of the matrices ``a[i]``, each by a workgroup.

    `scratch` has the shape ``(count, columns, pitch)`` unless matrices are held in local memory.
    """
    kind, N = scratch.dtype, SHAPE.columns
    REAL = out.values.dtype
    item, items, batch = kl.local_id(0), kl.local_size(0), kl.group_id(0)
    held = kl.local((N if SHAPE.held else 1, SHAPE.pitch if SHAPE.held else 1), kind)
    w = held if SHAPE.held else scratch[batch]
    lengths = kl.local(N, REAL)
    room = kl.local((2, SHAPE.longest), kind)
    going = kl.local(2, kl.i32)
    fetch(a[batch], w, lengths, SHAPE, element_at)
    field, best = scaled_columns(w, lengths, SHAPE)
    finite = kl.isfinite(best)
    rotate_all(w, going, out.status, finite, SHAPE)
    measure(w, lengths, SHAPE)
    for column in range(item, N, items):
        rank = rank_of(lengths, column, N)
        out.values[batch, rank] = scaled_by(lengths[column], field, -1)
        if SHAPE.squares:
            for row in range(N):
                put(out, row, rank, w[column, SHAPE.below + row], not SHAPE.turned)
        if SHAPE.longs > 0:
            length = lengths[column]
            inverse = kl.where(length > 0, 1 / length, length)
            for row in range(SHAPE.rows):
                put(out, row, rank, w[column, row] * inverse, SHAPE.turned)
    kl.barrier()
    if SHAPE.longs > 0:
        vanished = SHAPE.longs - N
        for column in range(N):
            vanished = vanished + kl.where(lengths[column] > 0, 0, 1)
        for k in range(kl.workgroup_uniform(vanished)):
            complete(out, room, SHAPE.longs - 1 - k, SHAPE.longs - vanished, SHAPE)


@kernel
def hermitian_by_rotations(
    a: kl.Array, out: Factors, scratch: kl.Array, *, SHAPE: RotationShape
) -> None:
    """Eigenvalues and eigenvectors of the matrices ``a[i]``, of which lower triangles are read.

    As `svd_by_rotations`; ``out.right`` is not used.
    """
    kind, N = scratch.dtype, SHAPE.columns
    REAL = out.values.dtype
    item, items, batch = kl.local_id(0), kl.local_size(0), kl.group_id(0)
    held = kl.local((N if SHAPE.held else 1, SHAPE.pitch if SHAPE.held else 1), kind)
    w = held if SHAPE.held else scratch[batch]
    lengths, sums = kl.local(N, REAL), kl.local(N, REAL)
    room = kl.local((2, N), kind)
    going = kl.local(2, kl.i32)
    matrix = a[batch]
    fetch(matrix, w, lengths, SHAPE, lower_at)
    field, best = scaled_columns(w, lengths, SHAPE)
    finite = kl.isfinite(best)
    shift = bound_of(w, room, lengths, sums, SHAPE)
    for column in range(item, N, items):
        w[column, column] = w[column, column] + shift
    kl.barrier()
    rotate_all(w, going, out.status, finite, SHAPE)
    measure(w, lengths, SHAPE)
    for column in range(item, N, items):
        inverse = 1 / lengths[column]
        for row in range(N):
            w[column, row] = w[column, row] * inverse
        quotient = rayleigh(matrix, w, column, field, SHAPE)
        sums[column] = kl.where(finite, -quotient, 0)
    kl.barrier()
    for column in range(item, N, items):
        rank = rank_of(sums, column, N)
        out.values[batch, rank] = scaled_by(-sums[column], field, -1)
        if SHAPE.longs > 0:
            for row in range(N):
                out.left[batch, row, rank] = w[column, row]


# -- the matrix -----------------------------------------------------------------------------------


@function
def measure(w: kl.Array, lengths: kl.Array, SHAPE: RotationShape) -> None:
    """The lengths of columns; 0 of those whose squares are too small to be summed."""
    TINY = tiny(lengths.dtype)
    for column in range(kl.local_id(0), SHAPE.columns, kl.local_size(0)):
        total = kl.cast(0, lengths.dtype)
        for row in kl.range(SHAPE.rows, unroll=4):
            total = total + absolute_square(w[column, row])
        lengths[column] = kl.where(total > TINY, kl.sqrt(total), 0)
    kl.barrier()


@function
def tiny(kind: Any) -> Any:
    """The square of a length that counts as 0 beside 1."""
    return 2.0**-100 if kind == kl.f32 else 2.0**-900


@function
def bound_of(
    w: kl.Array, room: kl.Array, lengths: kl.Array, sums: kl.Array, SHAPE: RotationShape
) -> Any:
    """A bound of the magnitudes of a Hermitian matrix' eigenvalues, seldom three times as large.

    What powers of the matrix make of a vector tells it; a sum of a column's magnitudes is as safe,
    but may be the root of the order times as large.
    """
    item, items = kl.local_id(0), kl.local_size(0)
    N, REAL = SHAPE.columns, lengths.dtype
    for column in range(item, N, items):
        total = kl.cast(0, REAL)
        for row in range(N):
            total = total + kl.abs(w[column, row])
        sums[column] = total
    kl.barrier()
    most, widest = sums[0], 0
    for column in range(1, N):
        if sums[column] > most:
            most, widest = sums[column], column
    for row in range(item, N, items):
        sign = 1 - 2 * (kl.popcount(kl.u32(row) * kl.u32(2654435769)) & kl.u32(1))
        weight = kl.where(row == widest, 1, kl.cast(kl.cast(sign, kl.i32), REAL) * 0.125)
        room[0, row] = kl.cast(weight, w.dtype)
    kl.barrier()
    growth = kl.cast(0, REAL)
    for power in range(_POWERS):
        growth = kl.maximum(growth, multiplied(w, room, power % 2, N))
        kl.barrier()
    return kl.where(most > 0, kl.minimum(most * 1.5, growth * _MARGIN), 1)


@function
def multiplied(w: kl.Array, room: kl.Array, slot: kl.Scalar, N: int) -> Any:
    """Multiplies a vector, scaled to a length of 1, with the matrix; how long that made it."""
    item, items = kl.local_id(0), kl.local_size(0)
    before = kl.cast(0, w.dtype.real)
    for row in range(N):
        before = before + absolute_square(room[slot, row])
    inverse = kl.where(before > 0, 1 / kl.sqrt(before), before)
    for row in range(item, N, items):
        total = kl.cast(0, w.dtype)
        for k in range(N):
            total = total + w[k, row] * room[slot, k]
        room[1 - slot, row] = total * inverse
    kl.barrier()
    after = kl.cast(0, w.dtype.real)
    for row in range(N):
        after = after + absolute_square(room[1 - slot, row])
    return kl.sqrt(after)


@function
def rayleigh(
    matrix: kl.Array, w: kl.Array, column: kl.Scalar, field: kl.Scalar, SHAPE: RotationShape
) -> Any:
    """The Rayleigh quotient of a column of length 1."""
    kind = w.dtype
    N = SHAPE.columns
    total = kl.cast(0, kind.real)
    for row in range(N):
        product = kl.cast(0, kind)
        for k in range(N):
            product = product + scaled(lower_at(matrix, row, k, kind), field, 1) * w[column, k]
        total = total + real_part(conjugate(w[column, row]) * product)
    return total


# -- results --------------------------------------------------------------------------------------


@function
def put(out: Factors, row: kl.Scalar, rank: kl.Scalar, x: kl.Scalar, ON_RIGHT: bool) -> None:
    """An element of a vector."""
    batch = kl.group_id(0)
    if ON_RIGHT:
        out.right[batch, rank, row] = conjugate(x)
    else:
        out.left[batch, row, rank] = x


@function
def long_at(out: Factors, row: kl.Scalar, rank: kl.Scalar, SHAPE: RotationShape) -> Any:
    """An element of a vector as long as the matrix, that `put` has put."""
    batch = kl.group_id(0)
    if SHAPE.turned:
        return conjugate(out.right[batch, rank, row])
    return out.left[batch, row, rank]


@function
def complete(
    out: Factors, room: kl.Array, rank: kl.Scalar, first: kl.Scalar, SHAPE: RotationShape
) -> None:
    """Makes a vector orthogonal to those before `first` and after `rank`.

    Of a unit vector, that of the row which they have least of; of several the last.
    """
    item, items = kl.local_id(0), kl.local_size(0)
    vector, shares = room[0], room[1]
    ROWS, LONGS, kind = SHAPE.rows, SHAPE.longs, room.dtype
    for row in range(item, ROWS, items):
        total = kl.cast(0, kind.real)
        for k in range(LONGS):
            if k < first or k > rank:
                total = total + absolute_square(long_at(out, row, k, SHAPE))
        vector[row] = kl.cast(total, kind)
    kl.barrier()
    least = 0
    for row in range(1, ROWS):
        if real_part(vector[row]) <= real_part(vector[least]):
            least = row
    kl.barrier()
    for row in range(item, ROWS, items):
        vector[row] = kl.cast(kl.where(row == least, 1, 0), kind)
    kl.barrier()
    for _ in range(2):
        for k in range(item, LONGS, items):
            total = kl.cast(0, kind)
            if k < first or k > rank:
                for row in range(ROWS):
                    total = total + conjugate(long_at(out, row, k, SHAPE)) * vector[row]
            shares[k] = total
        kl.barrier()
        for row in range(item, ROWS, items):
            total = vector[row]
            for k in range(LONGS):
                if k < first or k > rank:
                    total = total - long_at(out, row, k, SHAPE) * shares[k]
            vector[row] = total
        kl.barrier()
        squares = kl.cast(0, kind.real)
        for row in range(ROWS):
            squares = squares + absolute_square(vector[row])
        kl.barrier()
        for row in range(item, ROWS, items):
            vector[row] = vector[row] * (1 / kl.sqrt(squares))
        kl.barrier()
    for row in range(item, ROWS, items):
        put(out, row, rank, vector[row], SHAPE.turned)
    kl.barrier()


# -- rotations ------------------------------------------------------------------------------------


@function
def rotate_all(
    w: kl.Array, going: kl.Array, status: kl.Array, finite: kl.Scalar, SHAPE: RotationShape
) -> None:
    """Sweeps until all columns are orthogonal, and says whether they are."""
    sweep_all(w, going, rotate, SHAPE)
    if kl.local_id(0) == 0:
        status[kl.group_id(0)] = kl.where(finite, going[SHAPE.sweeps % 2], 2)


@function
def rotate(
    w: kl.Array, p: kl.Scalar, q: kl.Scalar, playing: kl.Scalar, SHAPE: RotationShape
) -> Any:
    """Makes two columns orthogonal, if they are `playing`; whether they were far from it.

    They were near it if their product was so small that another sweep is not worth it.
    """
    REAL = w.dtype.real
    ENOUGH, LEAST = (2.0**-21, 2.0**-23) if kl.f32 == REAL else (2.0**-50, 2.0**-52)
    products = column_products(w, p, q, playing, SHAPE)
    alpha, beta, gamma = products
    size, lengths = kl.abs(gamma), kl.sqrt(alpha) * kl.sqrt(beta)
    some = playing and alpha > tiny(REAL) and beta > tiny(REAL)
    if some and size > LEAST * lengths:
        turn_columns(w, (p, q), products, SHAPE)
    return some and size > ENOUGH * lengths


_UNUSED: Final = (1, 1, 1)


def svd_rotated(
    device: Device, a: Any, values: Any, left: Any, right: Any, *, both: bool = True
) -> Any:
    """Singular values and vectors of matrices.

    Parameters
    ----------
    device : Device
        Where.
    a : array, shape (count, m, n)
        The matrices, which are not empty.
    values : array, shape (count, min(m, n))
        Where singular values go, the largest first.
    left : array, shape (count, m, k)
        Where left vectors go, as columns; k is m or ``min(m, n)``.
    right : array, shape (count, k, n)
        Where right vectors go, conjugated, as rows; k is n or ``min(m, n)``.
    both : bool
        Whether all are wanted, or those alone that are as long as the matrices.

    Returns
    -------
    array of i32, shape (count,)
        0, 1 where rotations did not end, or 2 for NaN and infinities.
    """
    _, m, n = (int(x) for x in a.shape)
    longs = int(left.shape[2] if m >= n else right.shape[1])
    wanted = RotationShape(max(m, n), min(m, n), longs, squares=both, turned=m < n)
    return _launched(device, svd_by_rotations, a, (values, left, right), wanted)


def hermitian_rotated(device: Device, a: Any, values: Any, vectors: Any) -> Any:
    """Eigenvalues and eigenvectors of Hermitian matrices.

    Parameters
    ----------
    device : Device
        Where.
    a : array, shape (count, n, n)
        The matrices, of which lower triangles are read.
    values : array, shape (count, n)
        Where eigenvalues go, the least first.
    vectors : array, shape (count, n, n), or None
        Where eigenvectors go, as columns.

    Returns
    -------
    array of i32, shape (count,)
        As of `svd_rotated`.
    """
    n = int(a.shape[1])
    wanted = RotationShape(n, n, 0 if vectors is None else n, squares=False)
    return _launched(device, hermitian_by_rotations, a, (values, vectors, None), wanted)


def _launched(device: Device, kernel: Any, a: Any, results: Any, wanted: RotationShape) -> Any:
    count, kind, can = int(a.shape[0]), dtype(a.dtype).register, device.capabilities
    shape = rotation_shape(wanted, kind, can)
    scratch = device.empty(_UNUSED if shape.held else (count, *shape.room), kind)
    status = device.empty((count,), kl.i32)
    most = min(can.max_workgroup, can.max_workgroup_shape[0])
    items = 1 if can.single_work_items else min(shape.pairs * shape.parts, most)
    kernel[groups(count), items](
        a, Factors(results[0], results[1], results[2], status), scratch, SHAPE=shape
    )
    return status
