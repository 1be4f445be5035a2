"""Elements by position: gather and scatter."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.array.elementwise_kernel import product_of, unravelled
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["gather", "places", "scatter"]


@function
def checked(given: Any, extent: Any, flag: Any) -> Any:
    """An index counted from the front; one out of range sets `flag` and counts as 0."""
    n = kl.cast(given, kl.i64)
    # An index beyond the range of i64 comes out negative.
    bad = (n >= extent) | (n < -extent) | ((n < 0) & (given > 0))
    if bad:
        kl.atomic_or(flag, 0, 1)
    return kl.where(bad, 0, kl.where(n < 0, n + extent, n))


@function
def chosen(x: Any, index: Any, flag: Any, at: Any, AXIS: Any, COUNT: Any) -> Any:
    """Where in `x` the element `at` of a selection lies.

    Its dimension `AXIS` counts through `index`, which holds positions in the dimensions of `x` from
    `AXIS` on, `COUNT` of them, in C order; without a `flag` they are known to be in range.
    """
    place = index[*unravelled(at[AXIS], index.shape)]
    if flag is not None:
        place = checked(place, x.shape[AXIS], flag)
    return (*at[:AXIS], *unravelled(place, x.shape[AXIS : AXIS + COUNT]), *at[AXIS + 1 :])


@kernel
def places(index: Any, out: Any, flag: Any, extent: Any, *, FIRST: bool) -> None:
    """Adds a dimension to positions: ``out = out * extent + index``, or ``index`` the `FIRST` time.

    Negative indices count from the end. Those out of range set `flag` and count as 0.
    """
    i = kl.global_id(0)
    if i < out.shape[0]:
        place = checked(index[*unravelled(i, index.shape)], extent, flag)
        out[i] = place if FIRST else out[i] * extent + place


@kernel
def gather(
    x: Any,
    index: Any,
    flag: Any,
    out: Any,
    *,
    AXIS: int,
    COUNT: int,
    LANES: int,
    CHUNK: int,
    ROWS: int,
) -> None:
    """``out[..., n, ...] = x[..., index[n], ...]``, `n` being in dimension `AXIS`; see `chosen`.

    Work is cut as in `portable.array.elementwise_kernel.elementwise`.
    """
    inner = out.shape[out.ndim - 1]
    lead = out.shape[: out.ndim - 1]
    start = kl.global_id(0) * CHUNK
    first = kl.global_id(1) * ROWS
    if start < inner:
        stop = kl.minimum(start + CHUNK, inner)
        for row in range(first, kl.minimum(first + ROWS, product_of(lead))):
            outer = unravelled(row, lead)
            if out.ndim - 1 == AXIS:
                for j in range(start, stop):
                    out[*outer, j] = x[*chosen(x, index, flag, (*outer, j), AXIS, COUNT)]
            else:
                source = chosen(x, index, flag, outer, AXIS, COUNT)
                whole = start + (stop - start) // LANES * LANES
                if LANES > 1:
                    for j in range(start, whole, LANES):
                        kl.vstore(out, *outer, j, kl.vload(x, *source, j, lanes=LANES))
                for j in range(whole if LANES > 1 else start, stop):
                    out[*outer, j] = x[*source, j]


@kernel
def scatter(x: Any, index: Any, values: Any, *, COUNT: int, CHUNK: int, ROWS: int) -> None:
    """``x[index[n], ...] = values[n, ...]``, `index` being as in `chosen` and known to be in range.

    Work is cut as in `portable.array.elementwise_kernel.elementwise`.
    """
    inner = values.shape[values.ndim - 1]
    lead = values.shape[: values.ndim - 1]
    start = kl.global_id(0) * CHUNK
    first = kl.global_id(1) * ROWS
    if start < inner:
        stop = kl.minimum(start + CHUNK, inner)
        for row in range(first, kl.minimum(first + ROWS, product_of(lead))):
            outer = unravelled(row, lead)
            for j in range(start, stop):
                x[*chosen(x, index, None, (*outer, j), 0, COUNT)] = values[*outer, j]
