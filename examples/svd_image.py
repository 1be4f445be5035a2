"""How much of a picture its largest singular values hold.

`svdvals` finds the singular values on any device. The picture of rank k is made on the host by
NumPy's decomposition, to see what they mean.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import portable as pt
from portable.linalg import svdvals


def picture(n: int) -> np.ndarray[Any, Any]:
    """Rings, a chequered square and a slope, float32 of shape (n, n)."""
    y, x = np.mgrid[-1 : 1 : n * 1j, -1 : 1 : n * 1j]
    rings = np.cos(30 * np.hypot(x, y)) * (np.hypot(x, y) < 0.7)
    squares = (np.floor(8 * x) + np.floor(8 * y)) % 2 * ((x > 0.2) & (y > 0.2))
    return (rings + squares + 0.5 * x).astype(np.float32)


def run(image: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The singular values of an image, the largest first."""
    return np.asarray(pt.to_numpy(svdvals(pt.asarray(image, device=pt.device()))))


def held(sigma: np.ndarray[Any, Any], rank: int) -> float:
    """The share of the picture's squares in its `rank` largest singular values."""
    return float((sigma[:rank] ** 2).sum() / (sigma**2).sum())


def main() -> None:
    """Draws the picture from 5, 20 and 80 singular values."""
    image = picture(400)
    sigma = run(image)
    print(f"{pt.device().name}: 20 of 400 values hold {held(sigma, 20):.2%} of the picture")
    import matplotlib.pyplot as plt

    u, s, vt = np.linalg.svd(image)
    figure, axes = plt.subplots(1, 4, figsize=(12, 3.2))
    for axis, rank in zip(axes, (5, 20, 80, 400), strict=True):
        axis.imshow((u[:, :rank] * s[:rank]) @ vt[:rank], cmap="gray")
        axis.set_title(f"rank {rank}: {held(sigma, rank):.2%}")
        axis.axis("off")
    file = Path("svd_image.png")
    figure.savefig(file, dpi=120, bbox_inches="tight")
    print(f"drawn in {file}")


if __name__ == "__main__":
    main()
