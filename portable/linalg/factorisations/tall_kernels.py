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

_UNROLL: Final = 8


@kernel
def multiply_rows(
    a: kl.Array,
    factor: kl.Array | None,
    out: kl.Array | None,
    grams: kl.Array | None,
    shares: kl.Scalar,
) -> None:
    """``A F``, and the Gram matrix of what is read or, with a factor, stored; each may be left out.

    A workgroup has a share of the rows, and goes through it by tiles, of which the next one is on
    its way while one is multiplied. Local memory: ``(DEPTH + EDGE) (EDGE + 4)`` doubles.

    Parameters
    ----------
    a : array, shape (batch, m, n)
        The matrices, of at most `EDGE` columns.
    factor : array of float64, shape (batch, n, n)
        F.
    out : array, shape (batch, m, n)
        ``A F``; it may be `a`.
    grams : array of float64, shape (batch, shares, EDGE, EDGE)
        What each share adds to the Gram matrix.
    shares : int
        Workgroups of a matrix.
    """
    batch, share = kl.group_id(0) // shares, kl.group_id(0) % shares
    tile = kl.local((DEPTH, _PITCH), kl.f64)
    whole = tile[0:DEPTH, 0:EDGE]
    rows = kl.cdiv(kl.cdiv(a.shape[1], shares), DEPTH) * DEPTH
    start = share * rows
    stop = kl.minimum(start + rows, a.shape[1])
    matrix = a[batch, 0:stop]
    total = kl.matrix((EDGE, EDGE), kl.f64)
    total.fill(0)
    ahead = kl.private(kl.cdiv(DEPTH * EDGE, kl.local_size(0)), kl.f32)
    if factor is not None:
        triangle = kl.local((EDGE, _PITCH), kl.f64)
        for index in kl.workgroup_range(EDGE * EDGE):
            i, j = index // EDGE, index % EDGE
            triangle[i, j] = element_of(factor[batch], i, j)
    fetch(matrix, start, ahead)
    for first in range(start, stop, DEPTH):
        for i in kl.static_range(ahead.shape[0]):
            index = kl.local_id(0) + i * kl.local_size(0)
            tile[index // EDGE, index % EDGE] = kl.cast(ahead[i], kl.f64)
        kl.barrier()
        fetch(matrix, first + DEPTH, ahead)
        if factor is not None and out is not None:
            multiply_tile(whole, triangle[0:EDGE, 0:EDGE], out[batch, 0:stop], first)
        if grams is not None:
            kl.mma(total, whole.T, whole)
        kl.barrier()
    if grams is not None:
        for i, j, value in kl.elements(total):
            grams[batch, share, i, j] = value


@function
def multiply_tile(tile: kl.Array, triangle: kl.Array, out: kl.Array, first: kl.Scalar) -> None:
    """A tile's rows become their products, rounded as those that go to rows of `out`."""
    product = kl.matrix((DEPTH, EDGE), kl.f64)
    product.fill(0)
    kl.mma(product, tile, triangle)
    kl.barrier()
    for i, j, value in kl.elements(product):
        rounded = kl.cast(value, kl.f32)
        tile[i, j] = kl.cast(rounded, kl.f64)
        if first + i < out.shape[0] and j < out.shape[1]:
            out[first + i, j] = rounded
    kl.barrier()


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
