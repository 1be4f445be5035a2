"""Elements by position."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.moves.index_kernels import checked, chosen, named

__all__ = ["gather", "gather_along"]


@function
def chosen_side_by_side(
    x: Any, indices: Any, flag: Any, outer: Any, j: Any, AXIS: Any, COUNT: Any, LANES: Any
) -> Any:
    """`LANES` elements from `j` on along the last dimension, the one that the indices are for."""
    given = [kl.vload(index, j, lanes=LANES) for index in indices]
    found = [
        chosen(x, [places[lane] for places in given], flag, (*outer, j + lane), AXIS, COUNT)
        for lane in kl.static_range(LANES)
    ]
    return kl.vector(*[x[*source] for source in found])


@kernel
def gather(
    x: Any,
    indices: Any,
    flag: Any,
    out: Any,
    *,
    AXIS: int,
    COUNT: int,
    LANES: int,
    CHUNK: int,
    ROWS: int,
) -> None:
    """``out[..., n, ...] = x[..., i[n], j[n], ..., ...]``, `n` being in dimension `AXIS`.

    The indices are ``i, j, ...``: see `chosen`. Work is cut as in
    `portable.primitives.maps.elementwise_kernel.Share`.
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
                    for n in range(start, whole, LANES):
                        found = chosen_side_by_side(x, indices, flag, outer, n, AXIS, COUNT, LANES)
                        kl.vstore(out, *outer, n, found)
                for n in range(whole if LANES > 1 else start, stop):
                    at = (*outer, n)
                    out[*at] = x[*chosen(x, named(indices, n), flag, at, AXIS, COUNT)]
            else:
                source = chosen(x, named(indices, outer[AXIS]), flag, outer, AXIS, COUNT)
                if LANES > 1:
                    for n in range(start, whole, LANES):
                        kl.vstore(out, *outer, n, kl.vload(x, *source, n, lanes=LANES))
                for n in range(whole if LANES > 1 else start, stop):
                    out[*outer, n] = x[*source, n]


@kernel
def gather_along(
    x: Any, index: Any, flag: Any, out: Any, *, AXIS: int, CHUNK: int, ROWS: int
) -> None:
    """``out[..., n, ...] = x[..., index[..., n, ...], ...]``, `n` being in dimension `AXIS`.

    Work is cut as in `portable.primitives.maps.elementwise_kernel.Share`.
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
