"""Bitonic sort: pairs of elements are put in order, launch by launch.

K. E. Batcher, "Sorting networks and their applications", AFIPS 1968. What is compared does not
depend on the data, so that a work-item for each pair needs to know nothing of the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import portable as pt
from portable import lang as kl


@pt.kernel
def exchange(values: Any, run: Any, stride: Any) -> None:
    """Puts pairs `stride` apart in order: upwards in every other run of `run` elements."""
    pair = kl.global_id(0)
    if pair < values.shape[0] // 2:
        low = pair // stride * (2 * stride) + pair % stride
        x, y = values[low], values[low + stride]
        upwards = low // run % 2 == 0
        if (x > y) == upwards:
            values[low] = y
            values[low + stride] = x


def sort(values: Any) -> None:
    """Sorts a device's vector in place; its length is a power of two."""
    n = values.shape[0]
    if n & (n - 1):
        raise ValueError(f"{n} elements; bitonic sort takes a power of two")
    run = 2
    while run <= n:
        stride = run // 2
        while stride:
            exchange[n // 2, None](values, run, stride)
            stride //= 2
        run *= 2


def main() -> None:
    """Sorts a million numbers."""
    values = pt.random.Generator(3).uniform(2**20)
    sort(values)
    found = np.asarray(pt.to_numpy(values))
    print(f"{pt.device().name}: sorted {bool((np.diff(found) >= 0).all())}, least {found[0]:.2e}")


if __name__ == "__main__":
    main()
