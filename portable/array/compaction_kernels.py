"""What is true in a mask, written without gaps by work-items that do long sections of it."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.kernel import kernel

__all__ = ["compact"]


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
