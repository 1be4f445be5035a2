"""Clusters of points by Lloyd's algorithm: kernels for points, array functions for the rest.

S. P. Lloyd, "Least squares quantization in PCM", IEEE Trans. Inf. Theory 28 (1982).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import portable as pt
from portable import lang as kl


@pt.kernel
def assign(points: Any, centres: Any, nearest: Any, sums: Any, counts: Any) -> None:
    """The nearest centre of each point, to whose sum and count it is added."""
    i = kl.global_id(0)
    if i < points.shape[0]:
        best, least = 0, kl.f32(float("inf"))
        for c in range(centres.shape[0]):
            distance = kl.f32(0)
            for d in range(points.shape[1]):
                distance += kl.square(points[i, d] - centres[c, d])
            if distance < least:
                best, least = c, distance
        nearest[i] = best
        kl.atomic_add(counts, best, 1.0)
        for d in range(points.shape[1]):
            kl.atomic_add(sums, (best, d), points[i, d])


def run(points: np.ndarray[Any, Any], k: int, rounds: int) -> tuple[Any, Any]:
    """Centres (k, d) and the number of each point's (n,), from float32 points (n, d)."""
    xp = pt.xp()
    there = xp.asarray(points)
    centres = xp.asarray(points[:k])
    nearest = xp.zeros(len(points), dtype=xp.int32)
    for _ in range(rounds):
        sums = xp.zeros(centres.shape, dtype=xp.float32)
        counts = xp.zeros(k, dtype=xp.float32)
        assign[len(points), None](there, centres, nearest, sums, counts)
        # A centre without points stays where it is.
        held = xp.expand_dims(xp.maximum(counts, xp.ones_like(counts)), axis=1)
        empty = xp.expand_dims(counts == 0, axis=1)
        centres = xp.where(empty, centres, sums / held)
    return np.asarray(pt.to_numpy(centres)), np.asarray(pt.to_numpy(nearest))


def blobs(n: int) -> np.ndarray[Any, Any]:
    """Points about four corners, in turn."""
    random = np.random.default_rng(4)
    corners = np.array([[0, 0], [0, 6], [6, 0], [6, 6]])
    return (corners[np.arange(n) % 4] + random.standard_normal((n, 2))).astype(np.float32)


def main() -> None:
    """Finds four clusters and draws them."""
    points = blobs(20_000)
    centres, nearest = run(points, 4, 20)
    print(f"{pt.device().name}: centres {np.round(centres, 2).tolist()}")
    import matplotlib.pyplot as plt

    picture = Path("kmeans.png")
    plt.scatter(points[:, 0], points[:, 1], c=nearest, s=1, cmap="viridis")
    plt.plot(centres[:, 0], centres[:, 1], "rx")
    plt.savefig(picture, dpi=150)
    print(f"drawn in {picture}")


if __name__ == "__main__":
    main()
