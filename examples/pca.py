"""Principal components by singular vectors, on the device in use.

The code names no library: `pt.xp()` is the namespace of the device in use.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import portable as pt
from portable.linalg import svd


def components(x: Any, count: int) -> tuple[Any, Any]:
    """The directions (count, d) in which the rows of x (n, d) vary most, and their variances."""
    xp = pt.xp()
    centred = x - xp.mean(x, axis=0, keepdims=True)
    _, values, directions = svd(centred)  # the largest first
    return directions[:count], values[:count] ** 2 / (x.shape[0] - 1)


def cloud(n: int, d: int) -> np.ndarray[Any, Any]:
    """Points (n, d) whose axes have the standard deviations d, ..., 2, 1, turned about."""
    random = np.random.default_rng(7)
    turn, _ = np.linalg.qr(random.standard_normal((d, d)))
    return (random.standard_normal((n, d)) * np.arange(d, 0, -1) @ turn.T).astype(np.float32)


def main() -> None:
    """Finds the two main directions of a cloud in ten dimensions."""
    _, variances = components(pt.xp().asarray(cloud(100_000, 10)), 2)
    found = np.round(np.asarray(pt.to_numpy(variances)), 1).tolist()
    print(f"{pt.device().name}: variances {found}, made with 100 and 81")


if __name__ == "__main__":
    main()
