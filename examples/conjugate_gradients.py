"""A linear system by conjugate gradients: Array API code, and one kernel for the matrix.

M. R. Hestenes, E. Stiefel, "Methods of conjugate gradients for solving linear systems", J. Res.
NBS 49 (1952). The matrix is the five-point Laplacian of a grid, which need not be stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import portable as pt
from portable import lang as kl


@pt.kernel
def laplacian(x: Any, y: Any) -> None:
    """``y = A x`` for x on a grid that is surrounded by zeros."""
    i, j = kl.global_id(0), kl.global_id(1)
    rows, columns = x.shape
    if i < columns and j < rows:
        total = 4.0 * x[j, i]
        if i > 0:
            total -= x[j, i - 1]
        if i < columns - 1:
            total -= x[j, i + 1]
        if j > 0:
            total -= x[j - 1, i]
        if j < rows - 1:
            total -= x[j + 1, i]
        y[j, i] = total


def product(x: Any) -> Any:
    """A new array, ``A x``."""
    y = pt.xp().empty_like(x)
    laplacian[(x.shape[1], x.shape[0]), None](x, y)
    return y


def solve(b: Any, tolerance: float = 1e-5, most: int = 2000) -> tuple[Any, int]:
    """X with ``A x = b`` and how many steps it took, for b of a device on a grid."""
    xp = pt.xp()
    x = xp.zeros_like(b)
    residual, direction = b, b
    square = float(xp.sum(residual * residual))
    goal = tolerance**2 * square
    for step in range(most):
        if square <= goal:
            return x, step
        image = product(direction)
        length = square / float(xp.sum(direction * image))
        x = x + length * direction
        residual = residual - length * image
        before, square = square, float(xp.sum(residual * residual))
        direction = residual + (square / before) * direction
    raise ArithmeticError(f"no solution to {tolerance} in {most} steps")


def main() -> None:
    """Solves for a random right side on a grid of 200 x 200."""
    b = pt.random.Generator(1).normal((200, 200))
    x, steps = solve(b)
    left = np.abs(pt.to_numpy(product(x)) - pt.to_numpy(b)).max()
    print(f"{pt.device().name}: {steps} steps, largest residual {left:.1e}")


if __name__ == "__main__":
    main()
