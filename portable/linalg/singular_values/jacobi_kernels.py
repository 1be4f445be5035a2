"""Singular values of many small matrices at once, a workgroup each.

One-sided Jacobi rotations (M. Hestenes, J. SIAM 6 (1958)) make the columns of a matrix orthogonal;
their lengths are then the singular values. All pairs of columns come up once a sweep, in the rounds
of a tournament, whose pairs are disjoint: each is the work of some neighbouring work-items, which
share its rows out. `portable.linalg.spectral.rotations` plays the same tournament for
vectors too; values by its kernel took 1.3 to 6 times as long on a processor.
"""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.base.magnitude import power_bits, scaled_by
from portable.linalg.base.parts import absolute_square, largest_part, scaled
from portable.linalg.base.sums import add_up_neighbours, lane_sum
from portable.linalg.products.kernels import matrix_of
from portable.linalg.singular_values.rotation_shapes import RotationShape

_HELD: Final = 16
"""Rows up to which a work-item keeps its part of both columns in registers."""


@kernel
def jacobi_svdvals(
    a: kl.Array, values: kl.Array, largest: kl.Array, *, SHAPE: RotationShape
) -> None:
    """``values[i]``: the singular values of the i-th matrix of `a`, the largest first.

    ``largest[i]`` is its largest magnitude, NaN if it holds one.
    """
    kind = values.dtype
    N = SHAPE.columns
    w = kl.local((N, SHAPE.pitch), kind)
    lengths = kl.local(N, kind)
    going = kl.local(2, kl.i32)
    item, items, batch = kl.local_id(0), kl.local_size(0), kl.group_id(0)
    fetch(matrix_of(a, a, batch), w, lengths, SHAPE, element_at)
    field, best = scaled_columns(w, lengths, SHAPE)
    if item == 0:
        largest[batch] = best
    sweep_all(w, going, rotate, SHAPE)
    for column in range(item, N, items):
        total = kl.cast(0, kind)
        for row in kl.range(SHAPE.rows, unroll=4):
            total = total + w[column, row] * w[column, row]
        lengths[column] = kl.sqrt(total)
    kl.barrier()
    for column in range(item, N, items):
        length = lengths[column]
        values[batch, rank_of(lengths, column, N)] = scaled_by(length, field, -1)


@function
def element_at(matrix: kl.Array, row: kl.Scalar, column: kl.Scalar, kind: Any) -> Any:
    """An element of a matrix as it is."""
    return kl.cast(matrix[row, column], kind)


@function
def fetch(
    matrix: kl.Array, w: kl.Array, lengths: kl.Array, SHAPE: RotationShape, ELEMENT: Any
) -> None:
    """Copies the matrix, zeros where rows are made up; `lengths` are the columns' largest.

    `ELEMENT` reads one, as `element_at` does.
    """
    kind = w.dtype
    for column in range(kl.local_id(0), SHAPE.columns, kl.local_size(0)):
        best = kl.cast(0, lengths.dtype)
        for row in range(SHAPE.rows):
            i, j = (column, row) if SHAPE.turned else (row, column)
            x = ELEMENT(matrix, i, j, kind)
            x = kl.conj(x) if kind.is_complex and SHAPE.turned else x
            best = largest_part(best, x)
            w[column, row] = x
        make_up(w, column, SHAPE)
        lengths[column] = best
    kl.barrier()


@function
def make_up(w: kl.Array, column: kl.Scalar, SHAPE: RotationShape) -> None:
    """Zeros below a column's rows, and there a column of the identity."""
    for row in range(SHAPE.rows, SHAPE.step * SHAPE.whole):
        w[column, row] = 0
    if SHAPE.squares:
        w[column, SHAPE.below + column] = 1


@function
def scaled_columns(w: kl.Array, lengths: kl.Array, SHAPE: RotationShape) -> Any:
    """Scales the matrix to a largest magnitude of 1; zeros in place of one that is not finite.

    Returns the exponent field of the power of two, and the largest magnitude.
    """
    best = lengths[0]
    for column in range(1, SHAPE.columns):
        best = kl.maximum(best, lengths[column])
    finite = kl.isfinite(best)
    field = power_bits(kl.where(finite, best, 0), 0)
    for column in range(kl.local_id(0), SHAPE.columns, kl.local_size(0)):
        for row in range(SHAPE.rows):
            x = w[column, row]
            w[column, row] = kl.where(finite, scaled(x, field, 1), kl.cast(0, w.dtype))
    kl.barrier()
    return field, best


@function
def rank_of(lengths: kl.Array, column: kl.Scalar, N: int) -> Any:
    """How many columns are longer; where there is NaN the column's number, so that all differ."""
    length = lengths[column]
    rank = 0
    for other in range(N):
        x = lengths[other]
        if x > length or (x == length and other < column):
            rank = rank + 1
    return kl.where(length == length, rank, column)


@function
def sweep_all(w: kl.Array, going: kl.Array, ROTATE: Any, SHAPE: RotationShape) -> None:
    """Sweeps until all columns are orthogonal; of `going` the last number says whether not."""
    if kl.local_id(0) == 0:
        going[0] = 1
        going[1] = 0
    kl.barrier()
    for sweep in range(SHAPE.sweeps):
        if kl.workgroup_uniform(going[sweep % 2]) != 0:
            one_sweep(w, going, sweep, ROTATE, SHAPE)
        kl.barrier()


@function
def one_sweep(w: kl.Array, going: kl.Array, sweep: kl.Scalar, ROTATE: Any, SHAPE: Any) -> None:
    """All rounds of a sweep; leaves in ``going`` whether another one is needed.

    ``ROTATE(w, p, q, playing, SHAPE)`` makes two columns orthogonal and says whether they were not.
    """
    item, pairs = kl.local_id(0) // SHAPE.parts, kl.local_size(0) // SHAPE.parts
    N = SHAPE.columns
    PLAYERS = (N + 1) // 2 * 2
    turned = 0
    for turn in range(PLAYERS - 1):
        for start in range(0, PLAYERS // 2, pairs):
            pair = start + item
            p = (turn + pair) % (PLAYERS - 1)
            q = (turn + (PLAYERS - 1) - pair) % (PLAYERS - 1)
            if pair == 0:
                q = PLAYERS - 1
            playing = pair < PLAYERS // 2 and kl.maximum(p, q) < N
            if ROTATE(w, p, q, playing, SHAPE):
                turned = 1
        kl.barrier()
    if kl.local_id(0) == 0:
        going[sweep % 2] = 0
    if turned != 0:
        kl.atomic_store(going, (sweep + 1) % 2, 1)


@function
def rotate(
    w: kl.Array, p: kl.Scalar, q: kl.Scalar, playing: kl.Scalar, SHAPE: RotationShape
) -> Any:
    """Makes two columns orthogonal, if they are `playing`; whether they were not so already."""
    ENOUGH = 2.0**-21 if w.dtype == kl.f32 else 2.0**-50
    products = column_products(w, p, q, playing, SHAPE)
    needed = playing and kl.abs(products[2]) > ENOUGH * kl.sqrt(products[0]) * kl.sqrt(products[1])
    if needed:
        turn_columns(w, (p, q), products, SHAPE)
    return needed


_MUCH: Final = 2.0**30
"""Beside whose square 1 is nothing; that of what is much more may be infinite."""


@function
def turn_columns(
    w: kl.Array, columns: tuple[kl.Scalar, ...], products: tuple[kl.Scalar, ...], SHAPE: Any
) -> None:
    """Rotates two columns, given their `column_products`, so that they are orthogonal.

    In H. Rutishauser's form, Numer. Math. 9 (1966): small angles make small rounding errors. The
    second column is turned first, so that the product of both is real.
    """
    (p, q), (alpha, beta, gamma) = columns, products
    phase, product = kl.cast(1, w.dtype), gamma
    if w.dtype.is_complex:
        product = kl.abs(gamma)
        phase = kl.conj(gamma) / product
    zeta = (beta - alpha) / (2 * product)
    size = kl.abs(zeta)
    root = kl.where(size > _MUCH, size, kl.sqrt(1 + zeta * zeta))
    t = kl.copysign(1 / (size + root), zeta)
    c = 1 / kl.sqrt(1 + t * t)
    s = c * t
    turn = s / (1 + c)
    for i in kl.range(SHAPE.whole, unroll=-1 if SHAPE.whole <= _HELD else 4):
        row = i * SHAPE.step + kl.local_id(0) % SHAPE.parts
        x = kl.vload(w, p, row, lanes=SHAPE.lanes)
        y = kl.vload(w, q, row, lanes=SHAPE.lanes)
        y = y * phase if w.dtype.is_complex else y
        kl.vstore(w, p, row, x - s * (y + turn * x))
        kl.vstore(w, q, row, y + s * (x - turn * y))


@function
def column_products(w: kl.Array, p: kl.Scalar, q: kl.Scalar, playing: kl.Scalar, SHAPE: Any) -> Any:
    """The squares of two columns' lengths, and their product, for all who share them."""
    COMPLEX = w.dtype.is_complex
    sums = kl.private(4 if COMPLEX else 3, w.dtype.real, lanes=SHAPE.lanes, fill=0)
    if playing:
        for i in kl.range(SHAPE.length, unroll=-1 if SHAPE.length <= _HELD else 4):
            row = i * SHAPE.step + kl.local_id(0) % SHAPE.parts
            x = kl.vload(w, p, row, lanes=SHAPE.lanes)
            y = kl.vload(w, q, row, lanes=SHAPE.lanes)
            sums[0] = sums[0] + absolute_square(x)
            sums[1] = sums[1] + absolute_square(y)
            if COMPLEX:
                product = kl.conj(x) * y
                sums[2] = sums[2] + kl.real(product)
                sums[3] = sums[3] + kl.imag(product)
            else:
                sums[2] = sums[2] + x * y
    add_up_neighbours(sums, (0, 1, 2, 3) if COMPLEX else (0, 1, 2), SHAPE.parts)
    if COMPLEX:
        return sums[0], sums[1], kl.complex(sums[2], sums[3])
    return lane_sum(sums[0]), lane_sum(sums[1]), lane_sum(sums[2])
