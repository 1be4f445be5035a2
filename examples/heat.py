"""The heat equation on a square plate, by explicit steps of a five-point stencil.

The left edge is hot, the others are cold. A step reads one array and writes another; launches on a
device run in order, so that the host only says how many there are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import portable as pt
from portable import lang as kl


@pt.kernel
def diffuse(plate: Any, after: Any, rate: Any) -> None:
    """One step inside; the edges stay as they are."""
    x, y = kl.global_id(0), kl.global_id(1)
    if x < plate.shape[1] and y < plate.shape[0]:
        here = plate[y, x]
        if x > 0 and y > 0 and x < plate.shape[1] - 1 and y < plate.shape[0] - 1:
            around = plate[y, x - 1] + plate[y, x + 1] + plate[y - 1, x] + plate[y + 1, x]
            here += rate * (around - 4.0 * here)
        after[y, x] = here


def run(n: int, steps: int, rate: float = 0.2) -> np.ndarray[Any, Any]:
    """Temperatures from 0 to 1 of an n x n plate, float32, after some steps."""
    xp = pt.xp()
    start = np.zeros((n, n), np.float32)
    start[:, 0] = 1.0
    plate, after = xp.asarray(start), xp.empty((n, n), dtype=xp.float32)
    for _ in range(steps):
        diffuse[(n, n), None](plate, after, np.float32(rate))
        plate, after = after, plate
    return np.asarray(pt.to_numpy(plate))


def main() -> None:
    """Heats a plate and draws it."""
    plate = run(256, 4000)
    print(f"{pt.device().name}: mean temperature {plate.mean():.4f}")
    import matplotlib.pyplot as plt

    picture = Path("heat.png")
    plt.imsave(picture, plate, cmap="inferno")
    print(f"drawn in {picture}")


if __name__ == "__main__":
    main()
