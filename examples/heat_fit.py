"""The heat equation fitted to measurements: conductivity and loss of a plate, by gradients.

Explicit steps of ``u' = a laplace(u) - b u`` on a square whose border is kept cold. Measured is the
temperature of some points at the end; a tape goes back through all steps to the two parameters.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import portable as pt
from portable import lang as kl
from portable import primitives


class Plate(NamedTuple):
    """What is to be found, an array of one number each."""

    conductivity: Any
    loss: Any


@pt.kernel
def advance(plate: Any, dt: Any, u: Any, out: Any) -> None:
    """One step; the border stays as it is."""
    i, j = kl.global_id(1), kl.global_id(0)
    if 0 < i < u.shape[0] - 1 and 0 < j < u.shape[1] - 1:
        middle = u[i, j]
        around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4 * middle
        change = plate.conductivity[0] * around - plate.loss[0] * middle
        out[i, j] = middle + dt * change


@pt.kernel
def misfit(u: Any, measured: Any, where: Any, out: Any) -> None:
    """The squares of what is off at the points that were measured."""
    k = kl.global_id(0)
    off = u[where[k, 0], where[k, 1]] - measured[k]
    out[k] = off * off


def simulate(plate: Plate, start: Any, steps: int) -> Any:
    """The temperatures after some steps, each in an array of its own."""
    n = start.shape[0]
    xp = pt.xp()
    for _ in range(steps):
        after = xp.zeros((n, n), dtype=start.dtype)
        advance[(n, n), None](plate, 0.2, start, after)
        start = after
    return start


def fit(measured: Any, where: Any, start: Any, steps: int, rounds: int) -> tuple[Plate, float]:
    """The plate that fits best, and how far off it is, by gradient descent with signs (Rprop)."""
    xp = pt.xp()
    values, sizes, before = np.array([0.5, 0.5]), np.array([0.1, 0.1]), np.zeros(2)
    off = 0.0
    for _ in range(rounds):
        plate = Plate(*(xp.asarray(np.array([x], np.float32)) for x in values))
        squares = xp.zeros((where.shape[0],), dtype=xp.float32)
        with pt.Tape() as tape:
            end = simulate(plate, start, steps)
            misfit[where.shape[0]](end, measured, where, squares)
            loss = primitives.reduce(squares)
        found = tape.gradient(loss, (plate.conductivity, plate.loss))
        signs = np.sign([float(pt.to_numpy(g)[0]) for g in found])
        sizes *= np.where(signs * before < 0, 0.5, 1.2)
        values, before = np.maximum(values - sizes * signs, 1e-3), signs
        off = float(pt.to_numpy(loss))
    return Plate(*values), off


def problem(n: int, points: int) -> tuple[Any, Any]:
    """A hot spot on a cold plate, and where it is measured."""
    xp = pt.xp()
    start = np.zeros((n, n), np.float32)
    start[n // 3 : n // 2, n // 3 : n // 2] = 1
    where = np.random.default_rng(0).integers(1, n - 1, (points, 2)).astype(np.int32)
    return xp.asarray(start), xp.asarray(where)


def main(n: int = 48, steps: int = 12, rounds: int = 40) -> tuple[Plate, float]:
    """Measures a plate that is known, and finds its parameters again."""
    xp = pt.xp()
    start, where = problem(n, 200)
    truth = Plate(xp.asarray(np.array([0.8], np.float32)), xp.asarray(np.array([0.1], np.float32)))
    exact = pt.to_numpy(simulate(truth, start, steps))
    at = pt.to_numpy(where)
    found, off = fit(xp.asarray(exact[at[:, 0], at[:, 1]]), where, start, steps, rounds)
    print(f"conductivity {found.conductivity:.3f}, loss {found.loss:.3f}, misfit {off:.1e}")
    return found, off


if __name__ == "__main__":
    main()
