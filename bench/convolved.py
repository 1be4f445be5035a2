"""Convolutions by NumPy: some of their planes to verify by, and whole ones as a peer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

_PLANES: Final = 6


class SampledPlanes:
    """Planes of results, by the sums of the definition in double precision.

    Parameters
    ----------
    x, w : ndarray
        Images (N, C, H, W) and filters (K, C, R, S), without padding and strides.
    allowed : float
        The error that is allowed, relative to ``|w| * |x|``.
    """

    def __init__(self, x: Any, w: Any, allowed: float) -> None:
        random = np.random.default_rng(7)
        self._at = [
            (random.integers(x.shape[0]), random.integers(w.shape[0])) for _ in range(_PLANES)
        ]
        self._planes = [_plane(x[n], w[k]) for n, k in self._at]
        self._allowed = [
            allowed * float(_plane(np.abs(x[n]), np.abs(w[k])).max()) for n, k in self._at
        ]

    def error(self, planes: Any) -> float:
        """The largest error of the planes as a multiple of what is allowed."""
        pairs = zip(self._at, self._planes, self._allowed, strict=True)
        errors = [float(np.abs(planes[at] - plane).max()) / most for at, plane, most in pairs]
        return max(errors) if np.isfinite(errors).all() else float("inf")


def by_products(x: Any, w: Any) -> Callable[[], Any]:
    """All results by BLAS, from a view of the patches."""
    patches = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))

    def run() -> Any:
        return np.moveaxis(np.tensordot(patches, w, axes=([1, 4, 5], [1, 2, 3])), -1, 1)

    return run


def _plane(x: Any, w: Any) -> Any:
    down, across = w.shape[1:]
    height, width = x.shape[1] - down + 1, x.shape[2] - across + 1
    wide = x.astype(np.float64)
    return sum(
        np.tensordot(w[:, r, s].astype(np.float64), wide[:, r : r + height, s : s + width], 1)
        for r in range(down)
        for s in range(across)
    )
