"""The one kernel behind every element-wise function."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["FULL", "NUMBER", "REVERSED", "ROW", "elementwise", "product_of", "unravelled"]

FULL = "full"
"""An operand with a dimension for each of the result's."""
REVERSED = "reversed"
"""The same, the last dimension counted from its end."""
ROW = "row"
"""An operand without the last dimension, along which it is the same."""
NUMBER = "number"
"""An operand that is one number."""


@function
def product_of(extents: Any) -> Any:
    """The number of elements of a shape."""
    total = 1
    for extent in extents:
        total = total * extent
    return total


@function
def unravelled(position: Any, shape: Any) -> Any:
    """The index of the element that comes `position`-th in C order."""
    index = ()
    rest = position
    for d in kl.static_range(len(shape) - 1, 0, -1):
        index = (rest % shape[d], *index)  # type: ignore[assignment]
        rest = rest // shape[d]
    if len(shape) > 0:
        index = (rest, *index)  # type: ignore[assignment]
    return index


@function
def turned(x: Any, lanes: Any) -> Any:
    """The lanes of a vector in reverse."""
    items = ()
    for lane in kl.static_range(lanes):
        items = (x[lane], *items)  # type: ignore[assignment]
    return kl.vector(*items)


@function
def taken(x: Any, how: Any, kind: Any, outer: Any, j: Any, lanes: Any) -> Any:
    """An operand's element, or `lanes` of them, converted."""
    if how == NUMBER:
        value = x
    elif how == ROW:
        value = x[*outer]
    elif how == REVERSED:
        last = x.shape[x.ndim - 1] - lanes - j
        if lanes == 1:
            value = x[*outer, last]
        else:
            value = turned(kl.vload(x, *outer, last, lanes=lanes), lanes)
    elif lanes == 1:
        value = x[*outer, j]
    else:
        value = kl.vload(x, *outer, j, lanes=lanes)
    if kind is not None:
        value = kl.cast(value, kind)
    return kl.splat(value, lanes) if lanes > 1 and how in (NUMBER, ROW) else value


@function
def operated(
    x: Any, y: Any, z: Any, outer: Any, j: Any, lanes: Any, OP: Any, HOW: Any, KINDS: Any
) -> Any:
    """The operation on the operands that there are."""
    a = taken(x, HOW[0], KINDS[0], outer, j, lanes)
    if len(HOW) == 1:
        return OP(a)
    b = taken(y, HOW[1], KINDS[1], outer, j, lanes)
    if len(HOW) == 2:
        return OP(a, b)
    return OP(a, b, taken(z, HOW[2], KINDS[2], outer, j, lanes))


@kernel
def elementwise(
    x: Any,
    y: Any,
    z: Any,
    out: Any,
    *,
    OP: Any,
    HOW: Any,
    KINDS: Any,
    LANES: int,
    CHUNK: int,
    ROWS: int,
    STREAMING: bool,
) -> None:
    """``out = OP(x, y, z)``: each work-item does `CHUNK` neighbours of `ROWS` rows.

    The last dimension is counted in vectors of `LANES`, the rest of a row one by one; the other
    dimensions together are the rows. `y` and `z` may be None. `STREAMING` says that `out` is more
    than the caches hold.
    """
    inner = out.shape[out.ndim - 1]
    lead = out.shape[: out.ndim - 1]
    rows = product_of(lead)
    start = kl.global_id(0) * CHUNK
    first = kl.global_id(1) * ROWS
    if start < inner:
        stop = kl.minimum(start + CHUNK, inner)
        whole = start + (stop - start) // LANES * LANES
        # A GPU's work-item has one vector: copies of the loops would cost it registers.
        copies = 1 if CHUNK == LANES else 0
        for row in kl.range(first, kl.minimum(first + ROWS, rows), unroll=copies):
            outer = unravelled(row, lead)
            if LANES > 1:
                for j in kl.range(start, whole, LANES, unroll=copies):
                    value = operated(x, y, z, outer, j, LANES, OP, HOW, KINDS)
                    kl.vstore(out, *outer, j, value, streaming=STREAMING)
            for j in kl.range(whole if LANES > 1 else start, stop, unroll=copies):
                value = operated(x, y, z, outer, j, 1, OP, HOW, KINDS)
                out[*outer, j] = value
