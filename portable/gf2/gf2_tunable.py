"""What `portable tune gf2` searches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from portable.backend import Capabilities, Device
from portable.dtypes import DType, uint64
from portable.gf2.elimination import Elimination
from portable.gf2.layout import Order
from portable.gf2.product import matmul, random
from portable.gf2.tuning import SPACE, shape_of
from portable.tune.space import Parameters
from portable.tune.tunable import Size, Tunable, parse_extents


class _Squares:
    """The echelon form of a random square and its square, judged by the rank and a vector."""

    def __init__(self, device: Device, dtype: DType, size: Size) -> None:
        del dtype
        (n,) = size
        self._device = device
        self._a = random((n, n), seed=1, device=device)
        dense = self._a.to_dense().astype(np.float32)
        self._x = np.random.default_rng(1).integers(0, 2, n).astype(np.float32)
        # Sums of up to 2^24 ones are exact.
        self._expected = (dense @ (dense @ self._x % 2)) % 2
        self._rank = _rank(dense != 0)

    def run(self, choice: Parameters) -> None:
        """Enqueues both."""
        shape = shape_of(choice)
        order = Order(self._a.shape[1], backward=False)
        self._work = Elimination.of(self._a, order, shape=shape)
        self._work.run()
        self._product = matmul(self._a, self._a, shape=shape)

    def error(self) -> float:
        """0 if both are right, else infinity."""
        product = (self._product.to_dense().astype(np.float32) @ self._x) % 2
        rank = np.count_nonzero(self._work.pivots() >= 0)
        right = rank == self._rank and np.array_equal(product, self._expected)
        return 0.0 if right else float("inf")


def _rank(dense: Any) -> int:
    """By plain elimination of packed rows."""
    rows = [int.from_bytes(row.tobytes(), "little") for row in np.packbits(dense, axis=1)]
    known: dict[int, int] = {}
    for row in rows:
        while row and row.bit_length() in known:
            row ^= known[row.bit_length()]
        if row:
            known[row.bit_length()] = row
    return len(known)


def _sizes(capabilities: Capabilities) -> Sequence[Size]:
    return [(4096,)] if capabilities.local_memory_dedicated else [(2048,)]


def _steps(size: Size) -> float:
    """Additions of bits, as the unit of speed."""
    return 2.0 * size[0] ** 3


_parse: Final = partial(parse_extents, axes="N", example="4096")

TUNABLE: Final = Tunable(SPACE, (uint64,), _sizes, _parse, _steps, _Squares)
"""Tables and stripes of `portable.gf2`."""
