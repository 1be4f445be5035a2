"""Elements to positions, of which several may be the same."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled
from portable.primitives.moves.index_kernels import checked, chosen, named

__all__ = ["scatter"]


@function
def put(x: Any, at: Any, value: Any) -> None:
    """Writes an element that others may write too: one of theirs stays."""
    if kl.target.lone_work_items:
        # A plain store is indivisible there, and compilers make vectors of nothing else.
        x[*at] = value
    else:
        kl.atomic_store(x, at, value)


@function
def in_range(x: Any, indices: Any, flag: Any, AXIS: Any) -> Any:
    """Whether all indices into dimensions of `x` from `AXIS` on are in range; else `flag` is set.

    The work-items of a workgroup look at all of them together.
    """
    bad = kl.local(1, kl.i32)
    item = kl.local_id(0) + kl.local_size(0) * kl.local_id(1)
    if item == 0:
        bad[0] = 0
    kl.barrier()
    step = kl.local_size(0) * kl.local_size(1)
    for n in range(item, product_of(indices[0].shape), step):
        given = named(indices, n)
        for d in kl.static_range(len(indices)):
            checked(given[d], x.shape[AXIS + d], bad)
    kl.barrier()
    if item == 0 and bad[0] != 0:
        kl.atomic_or(flag, 0, 1)
    return bad[0] == 0


@kernel
def scatter(
    x: Any,
    indices: Any,
    flag: Any,
    values: Any,
    *,
    AXIS: int,
    COUNT: int,
    NUMBER: bool,
    AT_ONCE: bool,
    CHUNK: int,
    ROWS: int,
) -> None:
    """``x[..., i[n], j[n], ..., ...] = values[..., n, ...]``, `n` being in dimension `AXIS`.

    The indices are ``i, j, ...``: see `index_kernels.chosen`. `values` is a number if `NUMBER`.
    Nothing is written if `flag` says that an index is bad, which each workgroup finds out by itself
    if `AT_ONCE`. Work is cut as in `portable.primitives.maps.elementwise_kernel.Share`.
    """
    shape = (*x.shape[:AXIS], product_of(indices[0].shape), *x.shape[AXIS + COUNT :])
    inner = shape[len(shape) - 1]
    lead = shape[: len(shape) - 1]
    start = kl.global_id(0) * CHUNK
    first = kl.global_id(1) * ROWS
    good = True
    if AT_ONCE:
        good = in_range(x, indices, flag, AXIS)
    elif flag is not None:
        good = flag[0] == 0
    if start < inner and good:
        stop = kl.minimum(start + CHUNK, inner)
        for row in range(first, kl.minimum(first + ROWS, product_of(lead))):
            outer = unravelled(row, lead)
            for m in range(start, stop):
                at = (*outer, m)
                target = chosen(x, named(indices, at[AXIS]), None, at, AXIS, COUNT)
                put(x, target, values if NUMBER else values[*at])
