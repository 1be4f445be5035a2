"""A histogram: atomics in local memory first, which are fast, then one in global memory a bin.

Each workgroup counts its part of the data in bins of its own, and adds them to the result at the
end: the many additions meet on the chip, few meet in global memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import portable as pt
from portable import lang as kl

GROUP = 128
EACH = 16
"""Values that a work-item counts."""


@pt.kernel
def count(values: Any, low: Any, scale: Any, counts: Any, *, BINS: int) -> None:
    """Adds to `counts` how many values lie in each of `BINS` equal parts from `low` on."""
    own = kl.local_id(0)
    bins = kl.local(BINS, kl.i32)
    for b in range(own, BINS, kl.local_size(0)):
        bins[b] = 0
    kl.barrier()
    first = kl.group_id(0) * kl.local_size(0) * EACH + own
    for k in range(EACH):
        i = first + k * kl.local_size(0)
        if i < values.shape[0]:
            b = kl.i32((values[i] - low) * scale)
            kl.atomic_add(bins, kl.clip(b, 0, BINS - 1), 1, scope="workgroup")
    kl.barrier()
    for b in range(own, BINS, kl.local_size(0)):
        kl.atomic_add(counts, b, bins[b])


def run(values: Any, bins: int, low: float, high: float) -> np.ndarray[Any, Any]:
    """How many of a device's float32 values lie in each of `bins` equal parts of an interval.

    Values outside count in the first and the last part.
    """
    counts = pt.xp().zeros(bins, dtype=pt.xp().int32)
    n = values.shape[0]
    if n:
        scale = np.float32(bins / (high - low))
        count[pt.groups(-(-n // (GROUP * EACH))), GROUP](
            values, np.float32(low), scale, counts, BINS=bins
        )
    return np.asarray(pt.to_numpy(counts))


def main() -> None:
    """Draws the normal distribution with stars."""
    values = pt.random.Generator(0).normal(1_000_000)
    counts = run(values, 20, -4.0, 4.0)
    print(f"{pt.device().name}: {counts.sum()} values")
    for b, found in enumerate(counts):
        print(f"{-4 + 0.4 * b:5.1f} {'*' * (60 * int(found) // int(counts.max()))}")


if __name__ == "__main__":
    main()
