"""Element-wise functions of one operand whose neighbours lie along another axis than the result's.

Read and written as they lie, an array would be strided on one side. Here both sides are
contiguous: the elements change places on the way, in local memory or between vector lanes.

The last two axes are that along which the operand is contiguous, and that along which the result
is. Arguments are those of `portable.array.elementwise_kernel.elementwise`; `y` and `z` are None.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.array.elementwise_kernel import unravelled
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["exchange_blocks", "exchange_tiles"]


@function
def converted(x: Any, kind: Any) -> Any:
    """`x` in a type to compute in; None: its own."""
    return x if kind is None else kl.cast(x, kind)


@function
def square(number: Any, shape: Any, EDGE: int) -> Any:
    """Where square `number` of a stack of matrices begins: row, column, and its matrix' index."""
    down, across = shape[len(shape) - 2], shape[len(shape) - 1]
    wide, tall = kl.cdiv(across, EDGE), kl.cdiv(down, EDGE)
    outer = unravelled(number // wide // tall, shape[: len(shape) - 2])
    return number // wide % tall * EDGE, number % wide * EDGE, outer


@kernel
def exchange_tiles(
    x: Any, y: Any, z: Any, out: Any, *, OP: Any, KIND: Any, EDGE: int, TALL: int
) -> None:
    """``out = OP(x)``: a workgroup of ``EDGE, TALL`` does a square of `EDGE` in local memory."""
    down, across = out.shape[out.ndim - 2], out.shape[out.ndim - 1]
    top, left, outer = square(kl.group_id(0), out.shape, EDGE)
    tile = kl.local((EDGE, EDGE + 1), x.dtype)
    i, j = kl.local_id(0), kl.local_id(1)
    for k in kl.static_range(0, EDGE, TALL):
        if (top + i < down) & (left + j + k < across):
            tile[j + k, i] = x[*outer, top + i, left + j + k]
    kl.barrier()
    for k in kl.static_range(0, EDGE, TALL):
        if (top + j + k < down) & (left + i < across):
            out[*outer, top + j + k, left + i] = OP(converted(tile[i, j + k], KIND))


@kernel
def exchange_blocks(
    x: Any, y: Any, z: Any, out: Any, *, OP: Any, KIND: Any, EDGE: int, LANES: int
) -> None:
    """``out = OP(x)``: a work-item does a square of `EDGE`, in squares of `LANES` vectors."""
    down, across = out.shape[out.ndim - 2], out.shape[out.ndim - 1]
    top, left, outer = square(kl.global_id(0), out.shape, EDGE)
    for row in range(top, kl.minimum(top + EDGE, down), LANES):
        for column in range(left, kl.minimum(left + EDGE, across), LANES):
            if LANES > 1 and row + LANES <= down and column + LANES <= across:
                columns = ()
                for k in kl.static_range(LANES):
                    at = kl.vload(x, *outer, row, column + k, lanes=LANES, axis=x.ndim - 2)
                    columns = (*columns, at)  # type: ignore[assignment]
                for r in kl.static_range(LANES):
                    items = ()
                    for k in kl.static_range(LANES):
                        items = (*items, columns[k][r])  # type: ignore[assignment]
                    done = OP(converted(kl.vector(*items), KIND))
                    kl.vstore(out, *outer, row + r, column, done)
            else:
                for r in range(row, kl.minimum(row + LANES, down)):
                    for c in range(column, kl.minimum(column + LANES, across)):
                        out[*outer, r, c] = OP(converted(x[*outer, r, c], KIND))
