"""Poisson's equation on a square, by conjugate gradients on a sparse matrix.

The matrix comes from SciPy; all else runs on the device in use:

    PORTABLE_BACKEND=cuda python examples/sparse_solver.py
"""

from __future__ import annotations

from typing import Any

import scipy.sparse

import portable as pt
from portable.sparse import CSR


def laplacian(n: int) -> Any:
    """The five-point Laplacian of n x n points inside of a square with sides of 1."""
    line = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    unit = scipy.sparse.eye_array(n)
    return (scipy.sparse.kron(line, unit) + scipy.sparse.kron(unit, line)) * (n + 1) ** 2


def conjugate_gradients(a: CSR, b: Any, tolerance: float = 1e-5, steps: int = 1000) -> Any:
    """The solution of ``a x = b`` for a positive definite matrix, and the steps that it took."""
    xp = pt.xp()
    x = xp.zeros_like(b)
    residual = direction = b
    size = xp.vecdot(residual, residual)
    goal = float(size) * tolerance**2
    for step in range(steps):
        if float(size) <= goal:
            return x, step
        product = a @ direction
        along = size / xp.vecdot(direction, product)
        x = x + along * direction
        residual = residual - along * product
        before, size = size, xp.vecdot(residual, residual)
        direction = residual + size / before * direction
    raise ArithmeticError(f"conjugate gradients did not converge in {steps} steps")


def run(n: int = 63) -> float:
    """The greatest value of the solution for a load of 1; exactly 0.0736713... as n grows."""
    xp = pt.xp()
    a = CSR.from_scipy(laplacian(n).astype("float32"))
    x, steps = conjugate_gradients(a, xp.ones(n * n, dtype=xp.float32))
    greatest = float(xp.max(x))
    print(f"{a}: {greatest:.5f} in the middle, after {steps} steps")
    return greatest


if __name__ == "__main__":
    run()
