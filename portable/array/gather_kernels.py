"""Elements by position: gather, scatter, and the positions of what is true."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.array.elementwise_kernel import unravelled
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["gather", "places", "positions", "scatter"]


@function
def place_of(linear: Any, n: Any, x: Any, INDEXED: Any) -> Any:
    """Where in the first `INDEXED` dimensions of `x` the `n`-th position lies."""
    return unravelled(linear[n], x.shape[:INDEXED])


@kernel
def places(index: Any, out: Any, flag: Any, extent: Any, *, FIRST: bool) -> None:
    """Adds a dimension to positions: ``out = out * extent + index``, or ``index`` the `FIRST` time.

    Negative indices count from the end. Those out of range set `flag` and count as 0.
    """
    i = kl.global_id(0)
    if i < out.shape[0]:
        given = index[*unravelled(i, index.shape)]
        n = kl.cast(given, kl.i64)
        # An index beyond the range of i64 comes out negative.
        bad = (n >= extent) | (n < -extent) | ((n < 0) & (given > 0))
        if bad:
            kl.atomic_or(flag, 0, 1)
        place = kl.where(bad, 0, kl.where(n < 0, n + extent, n))
        out[i] = place if FIRST else out[i] * extent + place


@kernel
def gather(x: Any, linear: Any, out: Any, *, INDEXED: int) -> None:
    """``out[n, ...] = x[linear[n], ...]``, positions counting the first `INDEXED` dimensions."""
    i = kl.global_id(0)
    total = 1
    for extent in out.shape:
        total = total * extent
    if i < total:
        index = unravelled(i, out.shape)
        place = place_of(linear, index[0], x, INDEXED)
        out[*index] = x[*place, *index[1:]]


@kernel
def scatter(x: Any, linear: Any, values: Any, *, INDEXED: int) -> None:
    """``x[linear[n], ...] = values[n, ...]``."""
    i = kl.global_id(0)
    total = 1
    for extent in values.shape:
        total = total * extent
    if i < total:
        index = unravelled(i, values.shape)
        place = place_of(linear, index[0], x, INDEXED)
        x[*place, *index[1:]] = values[*index]


@kernel
def positions(mask: Any, counts: Any, out: Any) -> None:
    """The positions of what is true, `counts` being how many there are up to each."""
    i = kl.global_id(0)
    if i < mask.shape[0] and mask[i]:
        out[counts[i] - 1] = kl.cast(i, kl.i64)
