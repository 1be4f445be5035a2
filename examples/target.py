"""Particles that are to hit a target: the throw is found by gradients through the simulation.

Particles that repel each other fly under gravity with drag. Each step is a kernel in which a
particle sums the forces of all others; a tape goes back through all steps to the first velocity.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import portable as pt
from portable import lang as kl
from portable import primitives


@pt.kernel
def fly(dt: Any, throw: Any, x: Any, v: Any, x_after: Any, v_after: Any) -> None:
    """One step of all particles; `throw` is added to the velocity of the first step."""
    i = kl.global_id(0)
    ax, ay = 0.0, -1.0
    for j in range(x.shape[0]):
        dx, dy = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1]
        push = 0.02 / (dx * dx + dy * dy + 0.1)
        ax += push * dx
        ay += push * dy
    speed = kl.sqrt(v[i, 0] ** 2 + v[i, 1] ** 2 + 1e-6)
    vx = v[i, 0] + throw[0] + dt * (ax - 0.1 * speed * v[i, 0])
    vy = v[i, 1] + throw[1] + dt * (ay - 0.1 * speed * v[i, 1])
    v_after[i, 0], v_after[i, 1] = vx, vy
    x_after[i, 0], x_after[i, 1] = x[i, 0] + dt * vx, x[i, 1] + dt * vy


@pt.kernel
def distance(x: Any, target: Any, out: Any) -> None:
    """The square of each particle's distance from the target."""
    i = kl.global_id(0)
    dx, dy = x[i, 0] - target[0], x[i, 1] - target[1]
    out[i] = dx * dx + dy * dy


def miss(throw: Any, start: Any, target: Any, steps: int) -> Any:
    """The mean square of the distances from the target at the end."""
    xp = pt.xp()
    n = start.shape[0]
    x, v, still = start, xp.zeros_like(start), xp.zeros_like(target)
    for step in range(steps):
        x_after, v_after = xp.zeros_like(start), xp.zeros_like(start)
        fly[n](1 / steps, throw if step == 0 else still, x, v, x_after, v_after)
        x, v = x_after, v_after
    out = xp.zeros((n,), dtype=start.dtype)
    distance[n](x, target, out)
    return primitives.reduce(out)


def aim(n: int, steps: int, rounds: int) -> tuple[np.ndarray[Any, Any], list[float]]:
    """The throw that hits best, and the mean squares of the misses on the way there."""
    xp = pt.xp()
    start = xp.asarray(np.random.default_rng(0).uniform(-0.2, 0.2, (n, 2)).astype(np.float32))
    target = xp.asarray(np.array([1.5, 0.4], np.float32))
    throw, misses = np.zeros(2, np.float32), []
    for _ in range(rounds):
        aimed = xp.asarray(throw)
        with pt.Tape() as tape:
            total = miss(aimed, start, target, steps)
        throw = throw - 0.4 / n * pt.to_numpy(tape.gradient(total, aimed))
        misses.append(float(pt.to_numpy(total)) / n)
    return throw, misses


def main(n: int = 64, steps: int = 10, rounds: int = 25) -> list[float]:
    """Aims, and tells how well."""
    throw, misses = aim(n, steps, rounds)
    print(f"throw {throw[0]:.2f} {throw[1]:.2f}: mean square {misses[0]:.3f} -> {misses[-1]:.3f}")
    return misses


if __name__ == "__main__":
    main()
