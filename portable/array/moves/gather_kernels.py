"""Elements by position."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.array.base.elementwise_kernel import product_of, unravelled
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["checked", "gather", "gather_along", "given_for", "places"]


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
def chosen(x: Any, given: Any, flag: Any, at: Any, AXIS: Any, COUNT: Any) -> Any:
    """Where in `x` the element `at` of a selection lies.

    `given` is what the index holds for it: a position in the dimensions of `x` from `AXIS` on,
    `COUNT` of them, in C order; without a `flag` it is known to be in range.
    """
    place = given if flag is None else checked(given, x.shape[AXIS], flag)
    return (*at[:AXIS], *unravelled(place, x.shape[AXIS : AXIS + COUNT]), *at[AXIS + 1 :])


@function
def given_for(index: Any, at: Any, AXIS: Any) -> Any:
    """What the index holds for the element `at` of a selection, whose `AXIS` counts through it."""
    return index[*unravelled(at[AXIS], index.shape)]


@function
def chosen_side_by_side(
    x: Any, index: Any, flag: Any, outer: Any, j: Any, AXIS: Any, COUNT: Any, LANES: Any
) -> Any:
    """`LANES` elements from `j` on along the last dimension, the one that the index is for."""
    given = kl.vload(index, j, lanes=LANES)
    items = ()
    for lane in kl.static_range(LANES):
        source = chosen(x, given[lane], flag, (*outer, j + lane), AXIS, COUNT)
        items = (*items, x[*source])  # type: ignore[assignment]
    return kl.vector(*items)


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

    Work is cut as in `portable.array.base.elementwise_kernel.elementwise`.
    """
    inner = out.shape[out.ndim - 1]
    lead = out.shape[: out.ndim - 1]
    start = kl.global_id(0) * CHUNK
    first = kl.global_id(1) * ROWS
    if start < inner:
        stop = kl.minimum(start + CHUNK, inner)
        for row in range(first, kl.minimum(first + ROWS, product_of(lead))):
            outer = unravelled(row, lead)
            whole = start + (stop - start) // LANES * LANES
            if out.ndim - 1 == AXIS:
                if LANES > 1:
                    for j in range(start, whole, LANES):
                        found = chosen_side_by_side(x, index, flag, outer, j, AXIS, COUNT, LANES)
                        kl.vstore(out, *outer, j, found)
                for j in range(whole if LANES > 1 else start, stop):
                    given = given_for(index, (*outer, j), AXIS)
                    out[*outer, j] = x[*chosen(x, given, flag, (*outer, j), AXIS, COUNT)]
            else:
                source = chosen(x, given_for(index, outer, AXIS), flag, outer, AXIS, COUNT)
                if LANES > 1:
                    for j in range(start, whole, LANES):
                        kl.vstore(out, *outer, j, kl.vload(x, *source, j, lanes=LANES))
                for j in range(whole if LANES > 1 else start, stop):
                    out[*outer, j] = x[*source, j]


@kernel
def gather_along(
    x: Any, index: Any, flag: Any, out: Any, *, AXIS: int, CHUNK: int, ROWS: int
) -> None:
    """``out[..., n, ...] = x[..., index[..., n, ...], ...]``, `n` being in dimension `AXIS`.

    Work is cut as in `portable.array.base.elementwise_kernel.elementwise`.
    """
    inner = out.shape[out.ndim - 1]
    lead = out.shape[: out.ndim - 1]
    start = kl.global_id(0) * CHUNK
    first = kl.global_id(1) * ROWS
    if start < inner:
        for row in range(first, kl.minimum(first + ROWS, product_of(lead))):
            outer = unravelled(row, lead)
            for j in range(start, kl.minimum(start + CHUNK, inner)):
                at = (*outer, j)
                place = checked(index[*at], x.shape[AXIS], flag)
                out[*at] = x[*at[:AXIS], place, *at[AXIS + 1 :]]
