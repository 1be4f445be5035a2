"""The kernels with which divide and conquer begins: padding, and the blocks of the lowest level."""

from __future__ import annotations

from portable import lang as kl
from portable.lang.kernel import kernel
from portable.linalg.spectral.merge_shapes import Blocks


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
