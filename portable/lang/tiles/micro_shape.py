"""The size of micro-tiles: what part of an accumulator a CPU keeps in its vector registers."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from portable.dtypes import DType

__all__ = ["MicroShape"]

_MOST_LANES = 16


@dataclass(frozen=True, slots=True)
class MicroShape:
    """A micro-tile of `rows` by `vectors` vectors of `lanes`."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        """Columns of the micro-tile."""
        return self.vectors * self.lanes

    @staticmethod
    def choose(
        vector_bytes: int, dtype: DType, shapes: list[tuple[int, int]], padding: bool
    ) -> MicroShape:
        """The micro-tile for accumulators of the given shapes.

        Of 32 registers of 64 bytes 12 x 2 hold sums, of 16 narrower ones 6 x 2. Without
        `padding` the micro-tile divides every shape.
        """
        rows, columns = (gcd(*(shape[axis] for shape in shapes)) for axis in (0, 1))
        most_rows = 12 if vector_bytes >= 64 else 6
        most_lanes = min(_MOST_LANES, max(1, vector_bytes // dtype.itemsize))
        lanes = min(most_lanes, columns & -columns)
        if padding and 4 * lanes <= most_lanes:
            lanes = min(most_lanes, 1 << (columns - 1).bit_length())
        exact = columns % (2 * lanes) == 0
        vectors = 2 if exact or (padding and columns > lanes) else 1
        return MicroShape(_rows(rows, most_rows, padding), vectors, lanes)


def _rows(rows: int, most: int, padding: bool) -> int:
    """A divisor if a large one exists, else what wastes the fewest padded rows."""
    divisor = max(n for n in range(1, most + 1) if rows % n == 0)
    if 2 * divisor >= min(most, rows) or not padding:
        return divisor
    return min(range(most // 2, most + 1), key=lambda n: (-(-rows // n) * n, -n))
