"""Convolutions by NumPy as a peer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def by_products(x: Any, w: Any) -> Callable[[], Any]:
    """All results by BLAS, from a view of the patches."""
    patches = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))

    def run() -> Any:
        return np.moveaxis(np.tensordot(patches, w, axes=([1, 4, 5], [1, 2, 3])), -1, 1)

    return run
