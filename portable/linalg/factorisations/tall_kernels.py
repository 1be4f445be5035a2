"""Tall matrices by their rows: Gram matrices, and products with what makes columns orthonormal.

Numbers are rounded to single precision once, when they are stored: tiles of rows are multiplied in
double, by matrix units where a device has them.
"""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel

EDGE: Final = 64
"""Columns of a tile, and of a matrix at most."""

DEPTH: Final = 32
"""Rows of a tile."""

_PITCH: Final = EDGE + 4
"""So that matrix units read rows and columns of doubles from all banks of local memory."""

ROOM: Final = (DEPTH + EDGE) * _PITCH * 8
"""Bytes that the kernels have in local memory at most."""

_UNROLL: Final = 8


@kernel
def gram_rows(a: kl.Array, grams: kl.Array) -> None:
    """What shares of the rows of matrices add to their Gram matrices.

    A workgroup has a share of the rows, and goes through it by tiles, of which the next one is on
    its way while one is multiplied. Local memory: ``DEPTH (EDGE + 4)`` doubles.

    Parameters
    ----------
    a : array, shape (batch, m, n)
        The matrices, of at most `EDGE` columns.
    grams : array of float64, shape (batch, shares, EDGE, EDGE)
        The sums.
    """
    shares = grams.shape[1]
    batch, share = kl.group_id(0) // shares, kl.group_id(0) % shares
    start, stop = share_of(a.shape[1], share, shares)
    matrix, tile, ahead = a[batch, 0:stop], kl.local((DEPTH, _PITCH), kl.f64), room_ahead()
    total, rows = kl.matrix((EDGE, EDGE), kl.f64), tile[0:DEPTH, 0:EDGE]
    total.fill(0)
    fetch(matrix, start, ahead)
    for first in range(start, stop, DEPTH):
        put(ahead, tile)
        kl.barrier()
        fetch(matrix, first + DEPTH, ahead)
        kl.mma(total, rows.T, rows)
        kl.barrier()
    for i, j, value in kl.elements(total):
        grams[batch, share, i, j] = value


@kernel
def multiply_rows(a: kl.Array, factor: kl.Array, out: kl.Array, shares: kl.Scalar) -> None:
    """``A F``, by shares of the rows as of `gram_rows`.

    Local memory: ``(DEPTH + EDGE) (EDGE + 4)`` doubles.

    Parameters
    ----------
    a : array, shape (batch, m, n)
        The matrices, of at most `EDGE` columns.
    factor : array of float64, shape (batch, n, n)
        F.
    out : array, shape (batch, m, n)
        ``A F``; it may be `a`.
    shares : int
        Workgroups of a matrix.
    """
    batch, share = kl.group_id(0) // shares, kl.group_id(0) % shares
    start, stop = share_of(a.shape[1], share, shares)
    matrix, tile, ahead = a[batch, 0:stop], kl.local((DEPTH, _PITCH), kl.f64), room_ahead()
    right = kl.local((EDGE, _PITCH), kl.f64)
    for index in kl.workgroup_range(EDGE * EDGE):
        right[index // EDGE, index % EDGE] = element_of(factor[batch], index // EDGE, index % EDGE)
    fetch(matrix, start, ahead)
    for first in range(start, stop, DEPTH):
        put(ahead, tile)
        kl.barrier()
        fetch(matrix, first + DEPTH, ahead)
        product = kl.matrix((DEPTH, EDGE), kl.f64)
        product.fill(0)
        kl.mma(product, tile[0:DEPTH, 0:EDGE], right[0:EDGE, 0:EDGE])
        kl.barrier()
        for i, j, value in kl.elements(product):
            if first + i < stop and j < matrix.shape[1]:
                out[batch, first + i, j] = value


@function
def share_of(m: kl.Scalar, share: kl.Scalar, shares: kl.Scalar) -> Any:
    """The first row of a share, and the one behind its last."""
    rows = kl.cdiv(kl.cdiv(m, shares), DEPTH) * DEPTH
    return share * rows, kl.minimum(share * rows + rows, m)


@function
def room_ahead() -> Any:
    """Room for a work-item's part of a tile that is on its way."""
    return kl.private(kl.cdiv(DEPTH * EDGE, kl.local_size(0)), kl.f32)


@function
def put(ahead: kl.Array, tile: kl.Array) -> None:
    """Brings what has come into a tile."""
    for i in kl.static_range(ahead.shape[0]):
        index = kl.local_id(0) + i * kl.local_size(0)
        tile[index // EDGE, index % EDGE] = kl.cast(ahead[i], kl.f64)


@function
def element_of(matrix: kl.Array, row: kl.Scalar, column: kl.Scalar) -> Any:
    """An element, 0 beyond the matrix."""
    value = kl.cast(0, matrix.dtype.register)
    if row < matrix.shape[0] and column < matrix.shape[1]:
        value = matrix[row, column]
    return value


@function
def fetch(matrix: kl.Array, first: kl.Scalar, ahead: kl.Array) -> None:
    """Asks for what a work-item brings into the tile whose first row this is."""
    for i in kl.static_range(ahead.shape[0]):
        index = kl.local_id(0) + i * kl.local_size(0)
        ahead[i] = element_of(matrix, first + index // EDGE, index % EDGE)


@kernel
def add_grams(grams: kl.Array, gram: kl.Array) -> None:
    """Adds up what shares have of Gram matrices, a workgroup a row of one."""
    n, rows = gram.shape[1], kl.local_size(0) // EDGE
    batch, row = kl.group_id(0) // n, kl.group_id(0) % n
    column, part = kl.local_id(0) % EDGE, kl.local_id(0) // EDGE
    sums, total = kl.local((rows, EDGE), kl.f64), kl.cast(0, kl.f64)
    for share in kl.range(part, grams.shape[1], rows, unroll=_UNROLL):
        total = total + grams[batch, share, row, column]
    sums[part, column] = total
    kl.barrier()
    if part == 0 and column < n:
        for other in kl.static_range(1, rows):
            total = total + sums[other, column]
        gram[batch, row, column] = total


@kernel
def deviations(gram: kl.Array, far: kl.Array) -> None:
    """For each matrix the square of its distance from the identity, in Frobenius' norm."""
    batch, n, total = kl.group_id(0), gram.shape[1], kl.cast(0, gram.dtype)
    for index in kl.workgroup_range(n * n):
        i, j = index // n, index % n
        one = kl.where(i == j, kl.cast(1, gram.dtype), kl.cast(0, gram.dtype))
        total = total + (gram[batch, i, j] - one) * (gram[batch, i, j] - one)
    total = kl.workgroup_reduce(kl.add, total)
    if kl.local_id(0) == 0:
        far[batch] = total
