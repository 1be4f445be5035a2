"""Products of a matrix and a vector on devices whose work-items work alone: read once, by vectors.

What a product costs there is the reading of the matrix, so that no operand is packed into tiles.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["sum_of_rows", "sums_along_rows"]


@kernel
def sums_along_rows(a: Any, x: Any, out: Any, *, ACC: Any, LANES: int, ROWS: int) -> None:
    """``out = a x``, elements of a row lying together: a work-item does `ROWS` of them.

    Past the last row it reads that one again, and keeps nothing.
    """
    rows, columns = a.shape
    first = kl.global_id(0) * ROWS
    whole = columns // LANES * LANES
    sums = kl.private((ROWS,), ACC, lanes=LANES)
    for r in kl.static_range(ROWS):
        sums[r] = kl.splat(kl.cast(0, ACC), LANES)
    for column in range(0, whole, LANES):
        factor = kl.cast(kl.vload(x, column, lanes=LANES), ACC)
        for r in kl.static_range(ROWS):
            row = kl.minimum(first + r, rows - 1)
            sums[r] = kl.fma(kl.cast(kl.vload(a, row, column, lanes=LANES), ACC), factor, sums[r])
    for r in kl.static_range(ROWS):
        row = first + r
        if row < rows:
            total = kl.cast(0, ACC)
            for lane in kl.static_range(LANES):
                total += sums[r][lane]
            for column in range(whole, columns):
                total += kl.cast(a[row, column], ACC) * kl.cast(x[column], ACC)
            out[row] = total


@function
def _sum_columns(a: Any, x: Any, out: Any, first: Any, ACC: Any, LANES: Any, VECTORS: Any) -> None:
    """`VECTORS` vectors of neighbouring columns from `first` on."""
    sums = kl.private((VECTORS,), ACC, lanes=LANES)
    for v in kl.static_range(VECTORS):
        sums[v] = kl.splat(kl.cast(0, ACC), LANES)
    for row in range(a.shape[0]):
        factor = kl.splat(kl.cast(x[row], ACC), LANES)
        for v in kl.static_range(VECTORS):
            loaded = kl.cast(kl.vload(a, row, first + v * LANES, lanes=LANES), ACC)
            sums[v] = kl.fma(loaded, factor, sums[v])
    for v in kl.static_range(VECTORS):
        kl.vstore(out, first + v * LANES, kl.cast(sums[v], out.dtype))


@kernel
def sum_of_rows(a: Any, x: Any, out: Any, *, ACC: Any, LANES: int, VECTORS: int) -> None:
    """``out = x a``, elements of a row lying together.

    A work-item does a block of `VECTORS` vectors of columns, then those that are left one vector
    each, and the last one the columns that fill none.
    """
    columns = a.shape[1]
    blocks = columns // (VECTORS * LANES)
    item = kl.global_id(0)
    if item < blocks:
        _sum_columns(a, x, out, item * (VECTORS * LANES), ACC, LANES, VECTORS)
    else:
        first = blocks * (VECTORS * LANES) + (item - blocks) * LANES
        if first + LANES <= columns:
            _sum_columns(a, x, out, first, ACC, LANES, 1)
        else:
            for column in range(first, columns):
                total = kl.cast(0, ACC)
                for row in range(a.shape[0]):
                    total += kl.cast(a[row, column], ACC) * kl.cast(x[row], ACC)
                out[column] = total
