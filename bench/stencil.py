"""A nonlinear stencil, and its gradient worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

import portable
from portable import lang as kl


@portable.kernel
def stencil(x: kl.Array, y: kl.Array) -> None:
    """Each inner element times the sum of its differences to four neighbours."""
    i, j = kl.global_id(1), kl.global_id(0)
    if 0 < i < x.shape[0] - 1 and 0 < j < x.shape[1] - 1:
        middle = x[i, j]
        around = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]
        y[i, j] = middle * (around - 4 * middle)


def exact_gradient(x: Any) -> Any:
    """The gradient of the sum of all that the stencil makes, in double precision.

    Parameters
    ----------
    x : numpy.ndarray, shape (n, n)
    """
    x = x.astype(np.float64)
    out, middle = np.zeros_like(x), x[1:-1, 1:-1]
    sides = ((slice(0, -2), slice(1, -1)), (slice(2, None), slice(1, -1)))
    sides += tuple((b, a) for a, b in sides)
    for side in sides:
        out[side] += middle
        out[1:-1, 1:-1] += x[side]
    out[1:-1, 1:-1] -= 8 * middle
    return out
