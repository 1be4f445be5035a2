"""A network that learns which of two spirals a point belongs to.

It lives where its device is; only losses come back to the host while it trains.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import portable as pt
from portable.nn import MLP, Adam, fit


def spirals(n: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Points (2 n, 2) and their spirals, -1 or 1, (2 n, 1), in random order, float32."""
    random = np.random.default_rng(0)
    angle = 3 * np.pi * np.sqrt(random.random(n))
    arm = np.stack([angle * np.cos(angle), angle * np.sin(angle)], axis=1) / 10
    points = np.concatenate([arm, -arm]) + 0.01 * random.standard_normal((2 * n, 2))
    sides = np.repeat([1.0, -1.0], n)[:, None]
    order = random.permutation(2 * n)
    return points[order].astype(np.float32), sides[order].astype(np.float32)


def run(n: int, epochs: int) -> tuple[MLP, float]:
    """The trained network, and the share of its training points that it tells right."""
    points, sides = spirals(n)
    model = MLP([2, 64, 64, 1], activation="relu", seed=1)
    fit(model, points, sides, optimizer=Adam(0.01), epochs=epochs, batch_size=64, progress=False)
    return model, float((np.sign(predict(model, points)) == sides).mean())


def predict(model: MLP, points: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The network's outputs for points of the host."""
    return np.asarray(pt.to_numpy(model(pt.asarray(points, device=model.device))))


def main() -> None:
    """Trains and draws what the network believes of each place."""
    model, right = run(1000, 200)
    print(f"{model}: {right:.1%} of the points are told right")
    import matplotlib.pyplot as plt

    y, x = np.mgrid[-1:1:300j, -1:1:300j].astype(np.float32)
    belief = predict(model, np.stack([x.reshape(-1), y.reshape(-1)], axis=1)).reshape(300, 300)
    points, sides = spirals(300)
    plt.contourf(x, y, belief, levels=20, cmap="RdBu")
    plt.scatter(points[:, 0], points[:, 1], c=sides, s=4, cmap="RdBu", edgecolors="k")
    picture = Path("train.png")
    plt.savefig(picture, dpi=120)
    print(f"drawn in {picture}")


if __name__ == "__main__":
    main()
