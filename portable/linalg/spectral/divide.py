"""Eigenvalues of tridiagonal and singular values of bidiagonal matrices, with vectors.

Divide and conquer: diagonal blocks of up to 32 rows by rotations, all in one launch, then level by
level all pairs of neighbouring blocks at once. Launches, and products, are the same whatever is
deflated, so that nothing is read from the device.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType, dtype
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.linalg.products.gemm import gemm
from portable.linalg.spectral.merge_kernels import deflate, form_factor, join, unrotate
from portable.linalg.spectral.merge_shapes import Blocks, Joined, Kept, MergeShape, Roots
from portable.linalg.spectral.rotations import hermitian_rotated, svd_rotated
from portable.linalg.spectral.secular_kernels import place_roots, refine_weights, solve_secular


@kernel
def pad_diagonals(
    d: kl.Array, e: kl.Array, more_d: kl.Array, more_e: kl.Array, *, SINGULAR: bool
) -> None:
    """Copies diagonals, a matrix a workgroup, and makes them longer.

    What is added is coupled to nothing, and its values are larger than all others.
    """
    matrix, n, kind = kl.group_id(0), d.shape[1], d.dtype
    best = kl.cast(0, kind)
    for i in range(kl.local_id(0), n, kl.local_size(0)):
        off = kl.abs(e[matrix, i]) if i + 1 < n else best * 0
        before = kl.abs(e[matrix, i - 1]) if i > 0 else best * 0
        best = kl.maximum(best, kl.abs(d[matrix, i]) + off + before)
    best = kl.workgroup_reduce(kl.maximum, best) * 1.0625
    best = kl.where(best > 0, best, 1)
    size = more_d.shape[1]
    for i in range(kl.local_id(0), size, kl.local_size(0)):
        slot = SINGULAR and i == size - 1
        more_d[matrix, i] = d[matrix, i] if i < n else kl.where(slot, best * 0, best)
        more_e[matrix, i] = e[matrix, i] if i + 1 < n else best * 0


@kernel
def cut_leaves(d: kl.Array, e: kl.Array, leaves: kl.Array, *, TORN: bool) -> None:
    """Diagonal blocks with what is below their diagonals; dimension 2 is the blocks.

    Lower triangles of tridiagonal ones, as tearing them apart (`TORN`) leaves them, or transposes
    of upper bidiagonal ones that have one row less than columns. d and e have a row for each
    matrix.
    """
    column, row, leaf = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    s = leaves.shape[1]
    if column < leaves.shape[2] and row < s and leaf < leaves.shape[0]:
        matrix, first = leaf // (d.shape[1] // s), leaf % (d.shape[1] // s) * s
        value = kl.cast(0, leaves.dtype)
        if row == column:
            value = d[matrix, first + row]
            if TORN and row == 0 and first > 0:
                value = value - kl.abs(e[matrix, first - 1])
            if TORN and row == s - 1 and first + s < d.shape[1]:
                value = value - kl.abs(e[matrix, first + row])
        elif row == column + 1:
            value = e[matrix, first + column]
        leaves[leaf, row, column] = value


@kernel
def settle_bidiagonal(values: kl.Array, right: kl.Array, left: kl.Array, blocks: Blocks) -> None:
    """Singular values and vectors of blocks, the largest first, in the order of merges."""
    column, row, leaf = kl.global_id(0), kl.global_id(1), kl.global_id(2)
    s = blocks.values.shape[1]
    if column < s and row < s and leaf < blocks.values.shape[0]:
        source = kl.where(column < s - 1, s - 2 - column, column)
        blocks.right[leaf, row, column] = right[leaf, row, source]
        value = kl.where(row == column, kl.cast(1, values.dtype), 0)
        if row < s - 1 and column < s - 1:
            value = left[leaf, source, row]
        blocks.left[leaf, row, column] = value
        if row == 0:
            value = kl.cast(0, values.dtype)
            if column < s - 1:
                value = values[leaf, source]
            blocks.values[leaf, column] = value


LEAF: Final = 32
"""Rows of blocks that are decomposed by rotations."""

_ITEMS: Final = 64
_MOST: Final = 256
_TEAM: Final = 32
"""Work-items that share a root of many."""

_TILE: Final = (32, 8)


def tridiagonal_vectors(
    device: Device, d: Any, e: Any, *, wanted: bool = True, most: int = LEAF
) -> tuple[Blocks, Any]:
    """Eigenvalues and eigenvectors of symmetric tridiagonal matrices.

    Parameters
    ----------
    device : Device
        Where.
    d : array, shape (count, n)
        Diagonals, n at least 1.
    e : array, shape (count, n)
        Subdiagonals; the last element is not read.
    wanted : bool
        Whether eigenvectors are wanted. Without them their first and last elements lead to the
        values, and the vectors that come back mean nothing.
    most : int
        Rows of blocks that are decomposed by rotations, at most.

    Returns
    -------
    Blocks
        A block a matrix, of N >= n rows; the first n values, columns and rows are the matrix'.
    array of i32
        Not 0 where rotations did not end.
    """
    size, leaf, more = _padded(device, (d, e), d.shape[1], most, singular=False)
    count, kind = size[0] * (size[1] // leaf), dtype(d.dtype)
    leaves = device.empty((count, leaf, leaf), kind)
    cut_leaves[(leaf, leaf, count), (*_TILE, 1)](*more, leaves, TORN=True)
    values, vectors = device.empty((count, leaf), kind), device.empty((count, leaf, leaf), kind)
    status = hermitian_rotated(device, leaves, values, vectors)
    edges = vectors if wanted else vectors[:, :: leaf - 1]
    return _merged(device, Blocks(values, edges, None), more, False), status


def bidiagonal_vectors(device: Device, d: Any, e: Any, *, most: int = LEAF) -> tuple[Blocks, Any]:
    """Singular values and vectors of upper bidiagonal matrices.

    Parameters
    ----------
    device : Device
        Where.
    d : array, shape (count, n)
        Diagonals, n at least 1.
    e : array, shape (count, n)
        Superdiagonals; the last element is not read.
    most : int
        Rows of blocks that are decomposed by rotations, at most.

    Returns
    -------
    Blocks
        A block a matrix, of N > n rows; the first n values, columns and rows are the matrix'.
    array of i32
        Not 0 where rotations did not end.
    """
    size, leaf, more = _padded(device, (d, e), d.shape[1] + 1, most, singular=True)
    count, kind = size[0] * (size[1] // leaf), dtype(d.dtype)
    leaves = device.empty((count, leaf, leaf - 1), kind)
    cut_leaves[(leaf - 1, leaf, count), (*_TILE, 1)](*more, leaves, TORN=False)
    values = device.empty((count, leaf - 1), kind)
    right = device.empty((count, leaf, leaf), kind)
    turned = device.empty((count, leaf - 1, leaf - 1), kind)
    status = svd_rotated(device, leaves, values, right, turned)
    room = [device.empty((count, leaf, leaf), kind) for _ in range(2)]
    blocks = Blocks(device.empty((count, leaf), kind), *room)
    settle_bidiagonal[(leaf, leaf, count), (*_TILE, 1)](values, right, turned, blocks)
    return _merged(device, blocks, more, True), status


def _padded(device: Device, diagonals: Any, least: int, most: int, *, singular: bool) -> Any:
    """Longer diagonals, of a number of leaves that is a power of two."""
    (d, e), leaves = diagonals, 1
    while -(-least // leaves) > most:
        leaves *= 2
    leaf = max(2, -(-least // leaves))
    size = int(d.shape[0]), leaf * leaves
    more = device.empty(size, dtype(d.dtype)), device.empty(size, dtype(d.dtype))
    items = 1 if device.capabilities.single_work_items else _MOST
    pad_diagonals[groups(size[0]), items](d, e, *more, SINGULAR=singular)
    return size, leaf, more


class _Room(NamedTuple):
    """Arrays for the steps of a level."""

    joined: Joined
    kept: Kept
    roots: Roots


def _room(device: Device, merges: int, size: int, kind: DType) -> _Room:
    def numbers(*more: int) -> Any:
        return device.empty((merges, size, *more), kind)

    def integers(*more: int) -> Any:
        return device.empty((merges, size, *more), kl.i32)

    turns, counts = device.empty((merges, size + 1, 2), kind), device.empty((merges, 3), kl.i32)
    scales = device.empty((merges,), kl.i32)
    kept = Kept(
        numbers(), numbers(), integers(), numbers(), integers(), integers(2), turns, counts, scales
    )
    roots = Roots(integers(), numbers(), numbers(), numbers(), numbers(2), integers())
    return _Room(Joined(numbers(), numbers(), integers()), kept, roots)


def _merged(device: Device, blocks: Blocks, diagonals: Any, singular: bool) -> Blocks:
    """Merges blocks until there is one for each matrix."""
    d, e = diagonals
    can, kind = device.capabilities, dtype(d.dtype)
    lanes = max(1, can.vector_bytes // kind.itemsize) if can.single_work_items else 1
    team = 1 if can.single_work_items else max(1, min(_TEAM, can.max_workgroup))
    shape = MergeShape(singular, lanes, team)
    while int(blocks.values.shape[1]) < int(d.shape[1]):
        blocks = _next_level(device, blocks, d, e, shape)
    return blocks


def _next_level(device: Device, blocks: Blocks, d: Any, e: Any, shape: MergeShape) -> Blocks:
    """Merges neighbouring blocks."""
    kind, (count, h) = dtype(d.dtype), (int(x) for x in blocks.values.shape)
    rows, merges, size = int(blocks.right.shape[1]), count // 2, 2 * h
    joined, kept, roots = _room(device, merges, size, kind)
    items = 1 if device.capabilities.single_work_items else _ITEMS
    join[(size, merges), (_ITEMS, 1)](blocks, e, d, joined, SHAPE=shape)
    deflate[groups(merges), items](blocks, e, d, joined, kept, SHAPE=shape)
    teams = groups(-(-size * shape.team // (shape.lanes * items)), merges), (items, 1)
    solve_secular[teams](kept, roots, SHAPE=shape)
    refine_weights[teams](kept, roots, SHAPE=shape)
    values, factor = device.empty((merges, size), kind), device.empty((merges, size, size), kind)
    place_roots[teams](kept, roots, values, SHAPE=shape)
    reshape = device.namespace().reshape

    def merged(old: Any, *, left: bool) -> Any:
        """Vectors of pairs of blocks, of which the first and last elements may be all there is."""
        form_factor[(size, size, merges), (*_TILE, 1)](kept, roots, factor, SHAPE=shape, LEFT=left)
        unrotate[(size, merges), (_ITEMS, 1)](kept, factor)
        new = device.empty((merges, 2 * rows, size), kind)
        gemm(old, reshape(factor, (count, h, size)), out=reshape(new, (count, rows, size)))
        return new if rows == h else new[:, ::3]

    left = None if blocks.left is None else merged(blocks.left, left=True)
    return Blocks(values, merged(blocks.right, left=False), left)
