"""Gravity between all pairs of bodies, with tiles of them in local memory.

A work-item sums up what pulls at one body. The workgroup brings as many bodies as it has work-items
into local memory at a time, so that each is read from global memory once by a workgroup rather than
once by a work-item.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import portable as pt
from portable import lang as kl

SOFTENING = 1e-2
"""Added to squared distances, so that bodies that meet are not thrown apart."""


@pt.kernel
def accelerate(places: Any, masses: Any, speeds: Any, dt: Any, *, TILE: int) -> None:
    """Speeds after `dt` under the pull of all bodies; TILE is the workgroup's size."""
    own, i = kl.local_id(0), kl.global_id(0)
    n = masses.shape[0]
    tile = kl.local((TILE, 4), places.dtype)
    at = kl.minimum(i, n - 1)
    x, y, z = places[at, 0], places[at, 1], places[at, 2]
    ax, ay, az = x * 0, x * 0, x * 0
    for first in range(0, n, TILE):
        j = kl.minimum(first + own, n - 1)
        for c in kl.static_range(3):
            tile[own, c] = places[j, c]
        tile[own, 3] = kl.where(first + own < n, masses[j], 0.0)
        kl.barrier()
        for k in range(TILE):
            dx, dy, dz = tile[k, 0] - x, tile[k, 1] - y, tile[k, 2] - z
            near = kl.rsqrt(dx * dx + dy * dy + dz * dz + SOFTENING)
            pull = tile[k, 3] * near * near * near
            ax += pull * dx
            ay += pull * dy
            az += pull * dz
        kl.barrier()
    if i < n:
        speeds[i, 0] += dt * ax
        speeds[i, 1] += dt * ay
        speeds[i, 2] += dt * az


@pt.kernel
def move(places: Any, speeds: Any, dt: Any) -> None:
    """Places after `dt`."""
    i = kl.global_id(0)
    if i < places.shape[0]:
        for c in kl.static_range(3):
            places[i, c] += dt * speeds[i, c]


def energy(places: np.ndarray[Any, Any], speeds: np.ndarray[Any, Any], masses: Any) -> float:
    """Kinetic and potential energy together, on the host."""
    apart = places[:, None, :] - places[None, :, :]
    near = 1 / np.sqrt((apart**2).sum(-1) + SOFTENING)
    potential = -0.5 * (masses[:, None] * masses[None, :] * near).sum()
    return float(0.5 * (masses[:, None] * speeds**2).sum() + potential)


def run(n: int, steps: int, dt: float = 1e-3) -> tuple[float, float]:
    """The energy of a random cluster of `n` bodies before and after some steps."""
    xp, random = pt.xp(), np.random.default_rng(1)
    start = random.standard_normal((n, 3)).astype(np.float32)
    weights = (random.random(n) / n).astype(np.float32)
    places, masses = xp.asarray(start), xp.asarray(weights)
    speeds = xp.zeros((n, 3), dtype=xp.float32)
    # Now: on devices that take NumPy's arrays, `places` is `start`, and moves.
    before = energy(start.astype(float), np.zeros((n, 3)), weights.astype(float))
    tile = 64
    for _ in range(steps):
        accelerate[-(-n // tile) * tile, tile](places, masses, speeds, np.float32(dt), TILE=tile)
        move[n, None](places, speeds, np.float32(dt))
    after = energy(pt.to_numpy(places).astype(float), pt.to_numpy(speeds), weights.astype(float))
    return before, after


def main() -> None:
    """Follows 2,000 bodies and says how well their energy was kept."""
    before, after = run(2000, 100)
    print(f"{pt.device().name}: energy {before:.6f} before, {after:.6f} after 100 steps")


if __name__ == "__main__":
    main()
