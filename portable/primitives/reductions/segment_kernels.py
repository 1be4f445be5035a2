"""Kernels that combine the elements of segments of a vector."""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel

_CHAIN: Final = 64
"""Elements that are combined in a row, before that goes into another chain."""


@function
def segment_total(
    x: kl.Array, start: kl.Scalar, stop: kl.Scalar, step: int, OP: Any, KIND: Any, NEUTRAL: Any
) -> Any:
    """Every `step`th element of a segment combined, in chains, so that sums do not drift."""
    total = kl.cast(NEUTRAL, KIND)
    for begin in range(start, stop, _CHAIN * step):
        chain = kl.cast(NEUTRAL, KIND)
        for k in range(begin, kl.minimum(begin + _CHAIN * step, stop), step):
            chain = OP(chain, kl.cast(x[k], KIND))
        total = OP(total, chain)
    return total


@kernel
def segments_by_item(
    x: kl.Array,
    offsets: kl.Array,
    out: kl.Array,
    each: kl.Scalar,
    *,
    OP: Any,
    KIND: Any,
    NEUTRAL: Any,
) -> None:
    """A work-item for `each` segments that follow each other."""
    first = kl.global_id(0) * each
    for s in range(first, kl.minimum(first + each, out.shape[0])):
        start, stop = kl.cast(offsets[s], kl.i64), kl.cast(offsets[s + 1], kl.i64)
        out[s] = segment_total(x, start, stop, 1, OP, KIND, NEUTRAL)


@kernel
def segments_by_workgroup(
    x: kl.Array, offsets: kl.Array, out: kl.Array, *, OP: Any, KIND: Any, NEUTRAL: Any
) -> None:
    """A workgroup for each segment."""
    s = kl.group_id(0)
    start = kl.cast(offsets[s], kl.i64) + kl.local_id(0)
    stop = kl.cast(offsets[s + 1], kl.i64)
    total = segment_total(x, start, stop, kl.local_size(0), OP, KIND, NEUTRAL)
    total = kl.workgroup_reduce(OP, total)
    if kl.local_id(0) == 0:
        out[s] = total
