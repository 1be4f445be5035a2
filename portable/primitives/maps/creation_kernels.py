"""Arrays from formulas."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import lane_numbers

__all__ = ["counted", "counted_down", "diagonal_of_ones", "generated", "spaced"]


@function
def counted(i: Any, start: Any, step: Any, KIND: Any) -> Any:
    """Element `i` of an arithmetic progression."""
    return start + kl.cast(i, KIND) * step


@function
def counted_down(i: Any, start: Any, step: Any, KIND: Any) -> Any:
    """The same, rounded down."""
    return kl.floor(counted(i, start, step, KIND))


@function
def fill(a: Any, b: Any, out: Any, OP: Any, KIND: Any, STORED: Any, LANES: Any, CHUNK: Any) -> None:
    """``out[i] = OP(i, a, b)`` for this work-item's `CHUNK` elements."""
    start = kl.global_id(0) * CHUNK
    if start < out.shape[0]:
        stop = kl.minimum(start + CHUNK, out.shape[0])
        whole = start + (stop - start) // LANES * LANES
        if LANES > 1:
            steps = lane_numbers(KIND, LANES)
            for i in range(start, whole, LANES):
                kl.vstore(out, i, kl.cast(OP(steps + kl.cast(i, KIND), a, b, KIND), STORED))
        for i in range(whole if LANES > 1 else start, stop):
            out[i] = kl.cast(OP(i, a, b, KIND), STORED)


@kernel(contract=False)
def generated(
    a: Any, b: Any, out: Any, *, OP: Any, KIND: Any, STORED: Any, LANES: int = 1, CHUNK: int = 1
) -> None:
    """``out[i] = OP(i, a, b)``: each work-item does `CHUNK` neighbours, in vectors of `LANES`."""
    fill(a, b, out, OP, KIND, STORED, LANES, CHUNK)


@kernel(contract=False)
def spaced(
    a: Any, b: Any, last: Any, out: Any, *, OP: Any, KIND: Any, STORED: Any, LANES: int, CHUNK: int
) -> None:
    """An arithmetic progression, of which the last element is `last` unless that is None.

    `OP` is `counted` or `counted_down`.
    """
    fill(a, b, out, OP, KIND, STORED, LANES, CHUNK)
    end = out.shape[0] - 1
    if last is not None and kl.global_id(0) == end // CHUNK:
        out[end] = kl.cast(last, STORED)


@kernel
def diagonal_of_ones(out: Any, k: Any, *, KIND: Any, LANES: int, CHUNK: int, ROWS: int) -> None:
    """Ones on the diagonal `k` above the main one, zeros elsewhere.

    Work is cut as in `portable.primitives.maps.elementwise_kernel.elementwise`.
    """
    columns = out.shape[1]
    start = kl.global_id(0) * CHUNK
    first = kl.global_id(1) * ROWS
    if start < columns:
        stop = kl.minimum(start + CHUNK, columns)
        whole = start + (stop - start) // LANES * LANES
        zero = kl.cast(0, KIND)
        for row in range(first, kl.minimum(first + ROWS, out.shape[0])):
            if LANES > 1:
                for j in range(start, whole, LANES):
                    kl.vstore(out, row, j, kl.splat(zero, LANES))
            for j in range(whole if LANES > 1 else start, stop):
                out[row, j] = zero
            if start <= row + k and row + k < stop:
                out[row, row + k] = kl.cast(1, KIND)
