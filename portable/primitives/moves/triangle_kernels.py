"""Matrices with one side of a diagonal left out."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import lane_numbers, product_of, unravelled

__all__ = ["triangle"]


@function
def kept(value: Any, column: Any, edge: Any, BELOW: Any, KIND: Any, LANES: Any) -> Any:
    """Elements of neighbouring columns, zero beyond the edge, or before it if not `BELOW`."""
    zero = kl.cast(0, KIND)
    columns = column
    if LANES > 1:
        zero = kl.splat(zero, LANES)
        columns = lane_numbers(column.dtype, LANES) + column
    inside = columns <= edge if BELOW else columns >= edge
    return kl.where(inside, value, zero)


@kernel
def triangle(
    x: Any, out: Any, k: Any, *, BELOW: bool, KIND: Any, LANES: int, CHUNK: int, ROWS: int
) -> None:
    """The matrices of `x` up to the diagonal `k`, from it on if not `BELOW`; zeros elsewhere.

    Work is cut as in `portable.primitives.maps.elementwise_kernel.elementwise`.
    """
    inner = out.shape[out.ndim - 1]
    lead = out.shape[: out.ndim - 1]
    start = kl.global_id(0) * CHUNK
    first = kl.global_id(1) * ROWS
    if start < inner:
        stop = kl.minimum(start + CHUNK, inner)
        whole = start + (stop - start) // LANES * LANES
        for row in range(first, kl.minimum(first + ROWS, product_of(lead))):
            outer = unravelled(row, lead)
            edge = outer[out.ndim - 2] + k
            if LANES > 1:
                for j in range(start, whole, LANES):
                    value = kl.vload(x, *outer, j, lanes=LANES)
                    kl.vstore(out, *outer, j, kept(value, j, edge, BELOW, KIND, LANES))
            for j in range(whole if LANES > 1 else start, stop):
                out[*outer, j] = kept(x[*outer, j], j, edge, BELOW, KIND, 1)
