"""Softmax of rows: a workgroup works out a row together.

The greatest element and the sum are collectives of the workgroup, which take any function of two
values; one work-item alone would do the whole row by the same source.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import portable as pt
from portable import lang as kl

GROUP = 64


@pt.function
def greater(a: Any, b: Any) -> Any:
    """The larger of two."""
    return kl.maximum(a, b)


@pt.function
def plus(a: Any, b: Any) -> Any:
    """The sum of two."""
    return a + b


@pt.kernel
def softmax(x: Any, out: Any) -> None:
    """``exp(x - max) / sum`` of each row; a workgroup a row."""
    row = kl.group_id(0)
    columns = x.shape[1]
    most = kl.f32(float("-inf"))
    for c in kl.workgroup_range(columns):
        most = kl.maximum(most, kl.f32(x[row, c]))
    most = kl.workgroup_reduce(greater, most)
    total = kl.f32(0)
    for c in kl.workgroup_range(columns):
        total += kl.exp(kl.f32(x[row, c]) - most)
    total = kl.workgroup_reduce(plus, total)
    for c in kl.workgroup_range(columns):
        out[row, c] = kl.exp(kl.f32(x[row, c]) - most) / total


def run(x: Any) -> np.ndarray[Any, Any]:
    """The softmax of a device's rows, float32."""
    out = pt.xp().empty_like(x)
    softmax[pt.groups(x.shape[0]), GROUP](x, out)
    return np.asarray(pt.to_numpy(out))


def main() -> None:
    """Works out a thousand rows and adds each up."""
    found = run(pt.random.Generator(0).normal((1000, 777), deviation=10))
    sums = found.sum(1)
    print(f"{pt.device().name}: sums of rows from {sums.min():.6f} to {sums.max():.6f}")


if __name__ == "__main__":
    main()
