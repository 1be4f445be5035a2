"""Kernels for products of a sparse matrix.

What a product costs is the reading of the matrix: each number and its column once, in order, and
the vector's elements as columns ask for them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = [
    "Rows",
    "csr_long_rows_by_vector",
    "csr_rows_by_matrix",
    "csr_rows_by_vector",
    "csr_share_by_matrix",
    "csr_share_by_vector",
]


class Rows(NamedTuple):
    """A sparse matrix as kernels take it.

    Attributes
    ----------
    data : array, shape (nnz,)
        The numbers.
    columns : array, shape (nnz,)
        Of each.
    offsets : array, shape (rows + 1,)
        Where each row begins, and the last one ends.
    """

    data: Any
    columns: Any
    offsets: Any


@function
def first_row(offsets: Any, share: Any) -> Any:
    """The first row before which there are as many rows and numbers as `share`."""
    low = kl.cast(0, share.dtype)
    high = low + (offsets.shape[0] - 1)
    while low < high:
        middle = low + (high - low) // 2
        if kl.cast(offsets[middle], share.dtype) + middle < share:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def csr_share_by_vector(a: Any, x: Any, out: Any, share: Any, *, ACC: Any) -> None:
    """``out = a x``, each work-item the rows of an equal `share` of rows and numbers."""
    item = kl.cast(kl.global_id(0), share.dtype)
    for row in range(first_row(a.offsets, item * share), first_row(a.offsets, (item + 1) * share)):
        total = kl.cast(0, ACC)
        # One sum: compilers make gathers of several, which take twice as long on processors.
        for k in kl.range(a.offsets[row], a.offsets[row + 1], unroll=4):
            total = total + kl.cast(a.data[k], ACC) * kl.cast(x[a.columns[k]], ACC)
        out[row] = total


@kernel
def csr_rows_by_vector(a: Any, x: Any, out: Any, longest: Any, *, ACC: Any, LANES: int) -> None:
    """``out = a x``, `LANES` neighbouring work-items of a sub-group for each row.

    Rows of more numbers than `longest` are left to `csr_long_rows_by_vector`.
    """
    row = kl.global_id(0) // LANES
    lane = kl.global_id(0) % LANES
    inside = row < out.shape[0]
    start = kl.cast(a.offsets[row], kl.i64) if inside else 0
    stop = kl.cast(a.offsets[row + 1], kl.i64) if inside else 0
    mine = inside and stop - start <= longest
    total = kl.cast(0, ACC)
    for k in range(start + lane, stop if mine else start, LANES):
        total = total + kl.cast(a.data[k], ACC) * kl.cast(x[a.columns[k]], ACC)
    for step in kl.static_range(5):
        if 1 << step < LANES:
            total = total + kl.sub_group_shuffle_xor(total, 1 << step)
    if mine and lane == 0:
        out[row] = total


@kernel
def csr_long_rows_by_vector(a: Any, x: Any, rows: Any, out: Any, *, ACC: Any) -> None:
    """``out = a x`` of the rows named in `rows`, a workgroup for each."""
    row = rows[kl.group_id(0)]
    total = kl.cast(0, ACC)
    first = a.offsets[row] + kl.local_id(0)
    for k in range(first, a.offsets[row + 1], kl.local_size(0)):
        total = total + kl.cast(a.data[k], ACC) * kl.cast(x[a.columns[k]], ACC)
    total = kl.workgroup_reduce(kl.add, total)
    if kl.local_id(0) == 0:
        out[row] = total


@kernel
def csr_share_by_matrix(a: Any, x: Any, out: Any, share: Any, *, ACC: Any, LANES: int) -> None:
    """``out = a x`` of a dense matrix, each work-item a share of rows, in vectors along these."""
    item = kl.cast(kl.global_id(0), share.dtype)
    width = x.shape[1]
    whole = width // LANES * LANES
    for row in range(first_row(a.offsets, item * share), first_row(a.offsets, (item + 1) * share)):
        start, stop = a.offsets[row], a.offsets[row + 1]
        for j in range(0, whole, LANES):
            totals = kl.splat(kl.cast(0, ACC), LANES)
            for k in range(start, stop):
                factor = kl.splat(kl.cast(a.data[k], ACC), LANES)
                totals = totals + factor * kl.cast(kl.vload(x, a.columns[k], j, lanes=LANES), ACC)
            kl.vstore(out, row, j, totals)
        for j in range(whole, width):
            total = kl.cast(0, ACC)
            for k in range(start, stop):
                total = total + kl.cast(a.data[k], ACC) * kl.cast(x[a.columns[k], j], ACC)
            out[row, j] = total


@kernel
def csr_rows_by_matrix(a: Any, x: Any, out: Any, *, ACC: Any) -> None:
    """``out = a x`` of a dense matrix, a work-item for each element, neighbours along rows."""
    width = out.shape[1]
    row, j = kl.global_id(0) // width, kl.global_id(0) % width
    if row < out.shape[0]:
        total = kl.cast(0, ACC)
        for k in range(a.offsets[row], a.offsets[row + 1]):
            total = total + kl.cast(a.data[k], ACC) * kl.cast(x[a.columns[k], j], ACC)
        out[row, j] = total
