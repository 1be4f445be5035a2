"""Elements to positions, of which several may be the same."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.array.base.elementwise_kernel import product_of, unravelled
from portable.array.moves.index_kernels import chosen, given_by, named
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["scatter"]


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
    x: Any,
    i: Any,
    j: Any,
    k: Any,
    flag: Any,
    values: Any,
    *,
    COUNT: int,
    NUMBER: bool,
    CHUNK: int,
    ROWS: int,
) -> None:
    """``x[i[n], j[n], k[n], ...] = values[n, ...]``, `values` being a number if `NUMBER`.

    `j` and `k` may be None. The indices are for the first `COUNT` dimensions of `x`, as
    `portable.array.moves.index_kernels.chosen` has it; nothing is written if `flag` says that one
    is bad. Work is cut as in `portable.array.base.elementwise_kernel.elementwise`.
    """
    indices = given_by(i, j, k)
    shape = (product_of(i.shape), *x.shape[COUNT:])
    inner = shape[len(shape) - 1]
    lead = shape[: len(shape) - 1]
    start = kl.global_id(0) * CHUNK
    first = kl.global_id(1) * ROWS
    if start < inner and (flag is None or flag[0] == 0):
        stop = kl.minimum(start + CHUNK, inner)
        for row in range(first, kl.minimum(first + ROWS, product_of(lead))):
            outer = unravelled(row, lead)
            for m in range(start, stop):
                at = (*outer, m)
                target = chosen(x, named(indices, at[0]), None, at, 0, COUNT)
                put(x, target, values if NUMBER else values[*at])
