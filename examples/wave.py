"""Waves on water over ground of unknown height, and how each depth acts on what a buoy measures.

The wave equation in two dimensions by explicit steps. The parameters are a struct, a workgroup
reads its square of the surface through a tile in local memory, and the border reflects. A tape goes
back through all steps to the speed of the waves at each place.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import portable as pt
from portable import lang as kl

TILE = 8


class Water(NamedTuple):
    """What waves run through: their speed at each place, damping, and the time step."""

    speed: Any
    damping: Any
    dt: Any


@pt.function
def at(u: Any, i: Any, j: Any) -> Any:
    """The height at a place; beyond the border that of the border."""
    return u[kl.clip(i, 0, u.shape[0] - 1), kl.clip(j, 0, u.shape[1] - 1)]


@pt.kernel
def advance(water: Any, before: Any, now: Any, after: Any, *, T: int) -> None:
    """One step."""
    tile = kl.local((T + 2, T + 2), now.dtype)
    i, j = kl.global_id(1), kl.global_id(0)
    row, column = kl.local_id(1) + 1, kl.local_id(0) + 1
    tile[row, column] = at(now, i, j)
    if row == 1:
        tile[0, column] = at(now, i - 1, j)
        tile[T + 1, column] = at(now, i + T, j)
    if column == 1:
        tile[row, 0] = at(now, i, j - 1)
        tile[row, T + 1] = at(now, i, j + T)
    kl.barrier()
    if i < now.shape[0] and j < now.shape[1]:
        here = tile[row, column]
        around = tile[row - 1, column] + tile[row + 1, column]
        around += tile[row, column - 1] + tile[row, column + 1] - 4 * here
        step = water.speed[i, j] * water.dt
        kept = (here - before[i, j]) * (1 - water.damping * water.dt)
        after[i, j] = here + kept + step * step * around


@pt.kernel
def buoy(u: Any, place: Any, energy: Any) -> None:
    """Adds the square of the height where the buoy is."""
    energy[0] += u[place, place] ** 2


def measured(speed: Any, start: Any, steps: int) -> Any:
    """The sum of squares of what the buoy measures, an array of one."""
    xp, n = pt.xp(), start.shape[0]
    water, over = Water(speed, 0.2, 0.5), ((n, n), (TILE, TILE))
    before, now, energy = start, start, xp.zeros((1,), dtype=start.dtype)
    for _ in range(steps):
        after = xp.zeros_like(start)
        advance[over](water, before, now, after, T=TILE)
        buoy[1](after, 3 * n // 4, energy)
        before, now = now, after
    return energy


def sensitivity(n: int, steps: int) -> tuple[Any, Any, Any]:
    """The gradient of what the buoy measures by the speeds, these, and the start."""
    xp = pt.xp()
    y, x = np.mgrid[:n, :n] / n
    start = xp.asarray(np.exp(-60 * ((x - 0.3) ** 2 + (y - 0.3) ** 2)).astype(np.float32))
    speed = xp.asarray((0.6 + 0.3 * x).astype(np.float32))
    with pt.Tape() as tape:
        energy = measured(speed, start, steps)
    return tape.gradient(energy, speed), speed, start


def main(n: int = 64, steps: int = 100) -> tuple[float, float]:
    """Compares the gradient with a difference along some direction."""
    xp = pt.xp()
    gradient, speed, start = sensitivity(n, steps)
    way = xp.asarray(np.random.default_rng(0).uniform(0, 1, (n, n)).astype(np.float32))
    ahead, behind = (
        float(pt.to_numpy(measured(speed + by * way, start, steps))[0]) for by in (0.01, -0.01)
    )
    told = float(np.vdot(pt.to_numpy(gradient), pt.to_numpy(way)))
    difference = (ahead - behind) / 0.02
    print(f"along a direction: derivative {told:.4g}, difference {difference:.4g}")
    return told, difference


if __name__ == "__main__":
    main()
