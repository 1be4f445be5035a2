"""Sums over the lanes of a vector, and over neighbouring work-items, as functions for kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from portable import lang as kl
from portable.lang.function import function

_STAGES: Final = 6
"""Shuffles that a sum over a sub-group takes at most."""


@function
def lane_sum(x: kl.Scalar) -> Any:
    """The sum of a vector's lanes, in halves; a number is its own."""
    if x.dtype.is_complex or x.lanes == 1:
        return x
    half = x.lanes // 2
    return lane_sum(x[:half] + x[half:])


@function
def lane_sums(x: kl.Array, COUNT: int, LANES: int) -> Any:
    """Sums of the lanes of `COUNT` vectors, a power of two: in one vector, each in a run of lanes.

    Two vectors with runs of their own become one with runs half as long, so that four sums of 16
    lanes take 13 operations, one by one 32.
    """
    for level in kl.static_range(_STAGES):
        if 1 << level < COUNT:
            RUN = LANES >> level
            HALF = RUN // 2
            low = tuple(lane // HALF * RUN + lane % HALF for lane in range(LANES))
            high = tuple(lane // HALF * RUN + lane % HALF + HALF for lane in range(LANES))
            for j in kl.static_range(0, COUNT, 2 << level):
                a, b = x[j], x[j + (1 << level)]
                x[j] = kl.shuffle2(a, b, lanes=low) + kl.shuffle2(a, b, lanes=high)
    for level in kl.static_range(_STAGES):
        if 1 << level < LANES // COUNT:
            others = tuple(lane ^ (1 << level) for lane in range(LANES))
            x[0] = x[0] + kl.shuffle2(x[0], x[0], lanes=others)
    return x[0]


@function
def add_up_neighbours(sums: kl.Array, WHICH: Sequence[Any], END: int, STRIDE: int = 1) -> None:
    """Sums over work-items of a sub-group, `STRIDE` from each other, in runs of `END`; for each.

    Side by side, since a shuffle takes long to arrive.

    Parameters
    ----------
    sums : array
        What each work-item has.
    WHICH : sequence of indices
        The elements that are summed, in the order in which they are wanted.
    END, STRIDE : int
        Powers of two, both 1 for work-items that sum nothing.
    """
    for step in kl.static_range(_STAGES):
        if STRIDE << step < END:
            for i in WHICH:
                sums[i] = sums[i] + kl.sub_group_shuffle_xor(sums[i], STRIDE << step)
