"""What is true in a mask, written without gaps: by work-items alone, or by a workgroup together."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.array.reduction_kernels import total
from portable.array.scan_kernels import add_up, loaded
from portable.lang.kernel import kernel

__all__ = ["compact", "compact_together"]


@kernel
def compact(mask: Any, x: Any, counts: Any, out: Any, *, SECTION: int) -> None:
    """``out = x[mask]``, or the positions of what is true if `x` is None; of one dimension.

    A work-item does `SECTION` elements, `counts` being how many are true in each section.
    """
    s = kl.global_id(0)
    if s < counts.shape[0]:
        k = s - s
        for before in range(s):
            k = k + counts[before]
        end = k + counts[s]
        i = s * SECTION
        # Without a branch on the mask: what is not true is overwritten by what is.
        while k < end:
            out[k] = kl.cast(i, kl.i64) if x is None else x[i]
            k = k + kl.cast(mask[i], kl.i32)
            i = i + 1


@kernel
def compact_together(
    mask: Any, x: Any, ends: Any, out: Any, *, LANES: int, WIDTH: int, SECTION: int
) -> None:
    """As `compact`: a workgroup of `WIDTH` does `SECTION` elements, `LANES` a work-item at a time.

    `ends` are how many are true up to each section's end. Where in a tile they are goes through
    local memory, so that neighbouring work-items write neighbours.
    """
    item = kl.local_id(0)
    s = kl.group_id(0)
    sums = kl.local((WIDTH,), kl.i32)
    places = kl.local((WIDTH * LANES,), kl.i32)
    stop = kl.minimum(s * SECTION + SECTION, mask.shape[0])
    done = ends[s] - ends[s]
    if s > 0:
        done = ends[s - 1]
    for tile in range(s * SECTION, stop, WIDTH * LANES):
        own = loaded(mask, (), tile + item * LANES, stop, LANES, kl.i32, 0)
        count = own[0] if LANES > 1 else own
        if LANES > 1:
            for lane in kl.static_range(1, LANES):
                count = count + own[lane]
        sums[item] = count
        add_up(sums, total, WIDTH)
        place = sums[item] - count
        if LANES > 1:
            for lane in kl.static_range(LANES):
                if own[lane] > 0:
                    places[place] = item * LANES + lane
                    place = place + 1
        elif own > 0:
            places[place] = item
        kl.barrier()
        found = sums[WIDTH - 1]
        for k in range(item, found, WIDTH):
            at = tile + places[k]
            out[done + k] = kl.cast(at, kl.i64) if x is None else x[at]
        done = done + found
        kl.barrier()
