"""Matrices that singular value routines are tried on."""

from __future__ import annotations

import numpy as np

TOLERANCE = {"float16": 5e-3, "float32": 2e-6, "float64": 1e-13}
"""Largest error of a singular value over the largest of them, from eight superdiagonals on."""


def dense(ab: np.ndarray) -> np.ndarray:
    """An upper band in SciPy's diagonal-ordered form as a square matrix in double precision."""
    u, n = ab.shape[0] - 1, ab.shape[1]
    a = np.zeros((n, n))
    for k in range(min(u, n - 1) + 1):
        i = np.arange(n - k)
        a[i, i + k] = ab[u - k, k:]
    return a


def matrices(n: int = 14) -> dict[str, np.ndarray]:
    """Square matrices by name, in double precision; they fit into single precision."""
    rng = np.random.default_rng(1)
    ones = np.ones((n, n))
    powers = np.logspace(0, -12, n)
    kahan = np.triu(-0.3 * ones, 1) + np.eye(n)
    deficient = rng.standard_normal((n, n))
    deficient[:, 3::4] = 0
    deficient[5] = 0
    return {
        "graded": powers[:, None] * rng.standard_normal((n, n)),
        "graded upward": powers[::-1, None] * rng.standard_normal((n, n)),
        "clustered": np.eye(n) + 1e-6 * rng.standard_normal((n, n)),
        "rank deficient": deficient,
        "diagonal": np.diag(np.arange(1.0, n + 1)),
        "bidiagonal": np.diag(np.arange(1.0, n + 1)) + np.diag(np.ones(n - 1), 1),
        "zero": 0 * ones,
        "Kahan": 0.9 ** np.arange(n)[:, None] * kahan,
        "Hilbert": 1 / (1 + np.add.outer(np.arange(n), np.arange(n))),
        "huge": 1e37 * rng.standard_normal((n, n)),
        "tiny": 1e-37 * rng.standard_normal((n, n)),
    }
