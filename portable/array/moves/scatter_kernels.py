"""Elements to positions, of which several may be the same."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.array.base.elementwise_kernel import product_of, unravelled
from portable.array.moves.gather_kernels import checked, given_for
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["check", "scatter"]


@kernel
def check(index: Any, flag: Any, extent: Any, *, CHUNK: int) -> None:
    """Sets `flag` if an index is out of range; each work-item looks at `CHUNK` of them."""
    start = kl.global_id(0) * CHUNK
    for i in range(start, kl.minimum(start + CHUNK, product_of(index.shape))):
        checked(index[*unravelled(i, index.shape)], extent, flag)


@function
def put(x: Any, at: Any, value: Any) -> None:
    """Writes an element that others may write too: one of theirs stays."""
    if kl.target.kind == "cpu":
        # A plain store is indivisible there, and compilers make vectors of nothing else.
        x[*at] = value
    else:
        kl.atomic_store(x, at, value)


@kernel
def scatter(
    x: Any, index: Any, values: Any, *, COUNT: int, NUMBER: bool, CHUNK: int, ROWS: int
) -> None:
    """``x[index[n], ...] = values[n, ...]``, `values` being a number if `NUMBER`.

    `index` holds positions in the first `COUNT` dimensions of `x`, in C order, or negative ones
    that count from the end of the first; all are in range. Work is cut as in
    `portable.array.base.elementwise_kernel.elementwise`.
    """
    shape = (product_of(index.shape), *x.shape[COUNT:])
    inner = shape[len(shape) - 1]
    lead = shape[: len(shape) - 1]
    start = kl.global_id(0) * CHUNK
    first = kl.global_id(1) * ROWS
    if start < inner:
        stop = kl.minimum(start + CHUNK, inner)
        for row in range(first, kl.minimum(first + ROWS, product_of(lead))):
            outer = unravelled(row, lead)
            for j in range(start, stop):
                at = (*outer, j)
                place = kl.cast(given_for(index, at, 0), kl.i64)
                place = kl.where(place < 0, place + x.shape[0], place)
                target = (*unravelled(place, x.shape[:COUNT]), *at[1:])
                put(x, target, values if NUMBER else values[*at])
