"""Made-up problems of the special elimination, of any shape."""

from __future__ import annotations

import numpy as np

from portable.backend import Device
from portable.errors import ShapeError
from portable.gf2.matrix import BitMatrix
from portable.gf2.product import random

ELIMINATOR_DENSITY = 0.047
"""Of the largest published set at hand: 1,011 columns, 539 eliminators, 263 rows."""

ROW_DENSITY = 0.127
"""The same of its rows."""


def random_problem(
    columns: int,
    eliminators: int,
    rows: int,
    *,
    densities: tuple[float, float] = (ELIMINATOR_DENSITY, ROW_DENSITY),
    seed: int = 0,
    device: str | Device | None = None,
) -> tuple[BitMatrix, BitMatrix]:
    """Eliminators with distinct random leading columns, the highest first, and random rows.

    Parameters
    ----------
    columns, eliminators, rows : int
        The shape.
    densities : (float, float)
        The probabilities of ones among eliminators and among rows.
    seed : int
        The same one gives the same problem on every device.
    device : str or Device, optional
        Where; the device in use if left out.

    Raises
    ------
    ShapeError
        For more eliminators than columns.
    """
    if eliminators > columns:
        raise ShapeError(
            f"{eliminators} eliminators of {columns} columns: each has a leading column of its own"
        )
    order = np.random.default_rng(seed).permutation(columns)[:eliminators]
    leads = np.sort(order)[::-1]
    made = random((eliminators, columns), density=densities[0], seed=2 * seed, device=device)
    words = made.to_words()
    top, bit = leads // 64, np.uint64(1) << (leads % 64).astype(np.uint64)
    for i in range(eliminators):
        words[i, top[i] + 1 :] = 0
        words[i, top[i]] = words[i, top[i]] & (bit[i] - np.uint64(1)) | bit[i]
    given = random((rows, columns), density=densities[1], seed=2 * seed + 1, device=device)
    return BitMatrix.from_words(words, columns, device=device), given
