"""``python -m tests.gpu.bands DEVICE``: how many bands of 2 to 4 superdiagonals come out wrong.

Prints a line of JSON. With ``TESTS_FAULT`` in the environment that fault is planted first.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import scipy.linalg

import portable
from portable.linalg import band_to_bidiagonal
from tests.gpu.marks import pytest_configure
from tests.support.lapack import bdsqr

N = 400
ROUNDS = 5
ROOM = 1e-11
"""Of the largest singular value; right ones are off by some 1e-15."""


def band(u: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((u + 1, N))


def reference(ab: np.ndarray) -> np.ndarray:
    a = sum(np.diag(ab[len(ab) - 1 - k, k:], k) for k in range(len(ab)))
    return scipy.linalg.svdvals(a)


def measured(name: str) -> dict[str, Any]:
    """How many of the reductions are wrong on a device, and by how much at most."""
    device = portable.device(name)
    errors = []
    for u in (2, 3, 4):
        ab = band(u, u)
        wanted = reference(ab)
        with portable.use(name):
            given = device.from_numpy(ab)
            for _ in range(ROUNDS):
                d, e = (device.to_numpy(x) for x in band_to_bidiagonal(given))
                errors.append(float(np.max(np.abs(bdsqr(d, e) - wanted)) / wanted[0]))
    return {"of": len(errors), "wrong": sum(not x <= ROOM for x in errors), "worst": max(errors)}


if __name__ == "__main__":
    pytest_configure()
    sys.stdout.write(json.dumps(measured(sys.argv[1])) + "\n")
