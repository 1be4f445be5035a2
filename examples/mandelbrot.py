"""The Mandelbrot set: how long a point stays near 0 under ``z -> z**2 + c``.

Complex numbers are values of the kernel language. Each work-item follows one pixel until it
escapes, so that neighbours may finish at different times.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import portable as pt
from portable import lang as kl


@pt.kernel
def escape(counts: Any, left: Any, top: Any, pixel: Any, limit: Any) -> None:
    """How many steps each pixel takes to leave the circle of radius 2, at most `limit`."""
    x, y = kl.global_id(0), kl.global_id(1)
    if x < counts.shape[1] and y < counts.shape[0]:
        c = kl.complex(left + pixel * kl.f32(x), top - pixel * kl.f32(y))
        z = c
        steps = 0
        while steps < limit and z.real * z.real + z.imag * z.imag <= 4.0:
            z = z * z + c
            steps += 1
        counts[y, x] = steps


def run(rows: int, columns: int, limit: int = 200) -> np.ndarray[Any, Any]:
    """Steps of the pixels of a picture of the whole set, int32 of shape (rows, columns)."""
    counts = pt.xp().zeros((rows, columns), dtype=pt.xp().int32)
    pixel = np.float32(3.0 / columns)
    escape[(columns, rows), None](
        counts, np.float32(-2.2), pixel * np.float32(rows / 2), pixel, limit
    )
    return np.asarray(pt.to_numpy(counts))


def main() -> None:
    """Draws the set."""
    counts = run(1000, 1200)
    print(f"{pt.device().name}: {(counts == 200).mean():.1%} of the picture is in the set")
    import matplotlib.pyplot as plt

    picture = Path("mandelbrot.png")
    plt.imsave(picture, np.log1p(counts), cmap="magma")
    print(f"drawn in {picture}")


if __name__ == "__main__":
    main()
