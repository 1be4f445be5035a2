"""The size of micro-tiles: what part of an accumulator a CPU keeps in its vector registers."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from portable.backend import Capabilities
from portable.dtypes import DType

_MOST_LANES = 16
_MANY = 32
"""Registers, as AVX-512 and NEON have."""
_WIDE = 64
"""Bytes of a vector, as AVX-512 has them."""


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
        capabilities: Capabilities, dtype: DType, shapes: list[tuple[int, int]], padding: bool
    ) -> MicroShape:
        """The micro-tile for accumulators of the given shapes.

        Of 32 registers for vectors of 64 bytes 12 x 2 hold sums, of 32 narrower ones 6 x 4, whose
        operands take fewer loads and leave none of LLVM's registers out; of 16 ones 6 x 2. Without
        `padding` the micro-tile divides every shape.
        """
        rows, columns = (gcd(*(shape[axis] for shape in shapes)) for axis in (0, 1))
        wide, many = capabilities.vector_bytes >= _WIDE, capabilities.most_vectors >= _MANY
        most_rows, most_vectors = 12 if many and wide else 6, 4 if many and not wide else 2
        most_lanes = min(_MOST_LANES, max(1, capabilities.vector_bytes // dtype.itemsize))
        lanes = min(most_lanes, columns & -columns)
        if padding and 4 * lanes <= most_lanes:
            lanes = min(most_lanes, 1 << (columns - 1).bit_length())
        vectors = _vectors(columns, most_vectors, lanes, padding)
        return MicroShape(_rows(rows, most_rows, padding), vectors, lanes)


def _vectors(columns: int, most: int, lanes: int, padding: bool) -> int:
    """As many as divide the columns, or of which padding leaves none without any of them."""
    while most > 1 and columns % (most * lanes) and not (padding and 2 * columns > most * lanes):
        most //= 2
    return most


def _rows(rows: int, most: int, padding: bool) -> int:
    """A divisor if a large one exists, else what wastes the fewest padded rows."""
    divisor = max(n for n in range(1, most + 1) if rows % n == 0)
    if 2 * divisor >= min(most, rows) or not padding:
        return divisor
    return min(range(most // 2, most + 1), key=lambda n: (-(-rows // n) * n, -n))
