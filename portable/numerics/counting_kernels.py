"""Kernels that count elements by bins."""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["LOCAL_BINS", "count"]

LOCAL_BINS: Final = 2048
"""The most bins that a workgroup keeps in local memory of its own."""


@function
def bin_of(value: Any, edges: Any) -> Any:
    """How many of the edges, which ascend, are not above `value`, less one; the last bin is closed.

    NaN is in no bin: it gives -1.
    """
    low, high = 0, edges.shape[0]
    while low < high:
        middle = (low + high) // 2
        if edges[middle] <= value:
            low = middle + 1
        else:
            high = middle
    last = edges.shape[0] - 1
    if value == edges[last]:
        low = last
    return low - 1


@function
def even_bin_of(value: Any, edges: Any, scale: Any) -> Any:
    """`bin_of` for edges that are about ``1 / scale`` apart: looks about where it should be."""
    last = edges.shape[0] - 1
    place = kl.clip(kl.i32((value - edges[0]) * scale), 0, last - 1)
    while place > 0 and value < edges[place]:
        place -= 1
    while place < last - 1 and value >= edges[place + 1]:
        place += 1
    return place if edges[0] <= value and value <= edges[last] else -1


@kernel
def count(
    x: Any, edges: Any, scale: Any, weights: Any, totals: Any, each: Any, *, BINS: int, EDGE: Any
) -> None:
    """Adds to `totals` what lies in each bin: 1 for each element, or its weight.

    Without edges (None) elements are numbers of bins; others are passed over. With a `scale` edges
    are about evenly spaced. Each work-item takes `each` elements. With up to `BINS` bins a
    workgroup counts in local memory first, where many additions meet, and a lone work-item needs no
    atomic ones.
    """
    own = kl.local_id(0)
    bins = totals.shape[0]
    if BINS > 0:
        inside = kl.local(BINS, totals.dtype)
        for b in range(own, bins, kl.local_size(0)):
            inside[b] = 0
        kl.barrier()
    first = kl.group_id(0) * kl.local_size(0) * each + own
    for k in range(each):
        i = first + k * kl.local_size(0)
        if i < x.shape[0]:
            b = kl.i32(-1)
            if edges is None:
                if x[i] >= 0 and x[i] < bins:
                    b = kl.i32(x[i])
            else:
                value = kl.cast(x[i], EDGE)
                if scale is None:
                    b = kl.i32(bin_of(value, edges))
                else:
                    b = kl.i32(even_bin_of(value, edges, scale))
            if b >= 0 and b < bins:
                amount = 1 if weights is None else weights[i]
                if BINS > 0 and kl.local_size(0) == 1:
                    inside[b] += amount
                elif BINS > 0:
                    kl.atomic_add(inside, b, amount, scope="workgroup")
                else:
                    kl.atomic_add(totals, b, amount)
    if BINS > 0:
        kl.barrier()
        for b in range(own, bins, kl.local_size(0)):
            kl.atomic_add(totals, b, inside[b])
