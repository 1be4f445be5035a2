"""How matrices that are decomposed by rotations lie in a workgroup's memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from portable.backend import Capabilities
from portable.dtypes import DType

_PARTS: Final = 4
"""Work-items that share a pair of columns, if they are not long."""

_ROWS_OF_PART: Final = 16
_SWEEPS: Final = 40
_VECTOR_BYTES: Final = 32
_BESIDE: Final = 1024
"""Bytes of local memory for flags, and what collectives of a workgroup take."""


@dataclass(frozen=True, slots=True)
class RotationShape:
    """How a matrix, or its conjugate transpose, is laid out, a column behind the other.

    Attributes
    ----------
    rows, columns : int
        Its extents, at least as many rows as columns.
    longs : int
        Left vectors that are wanted, from `columns` to `rows`; 0 for none.
    squares : bool
        Whether right vectors are wanted: they lie below the rows of each column.
    lanes : int
        Rows of a vector, where one work-item goes through all pairs.
    parts : int
        Neighbouring work-items that share a pair, a power of two; 1 with vectors.
    sweeps : int
        Sweeps at most.
    turned : bool
        Whether it is the conjugate transpose.
    held : bool
        Whether it lies in local memory.
    """

    rows: int
    columns: int
    longs: int
    squares: bool
    lanes: int = 1
    parts: int = 1
    sweeps: int = _SWEEPS
    turned: bool = False
    held: bool = True

    @property
    def length(self) -> int:
        """Rows that each of the work-items has of a column, made up with zeros."""
        return -(-self.rows // self.step)

    @property
    def whole(self) -> int:
        """The same of a column with what lies below it."""
        return self.length + (-(-self.columns // self.step) if self.squares else 0)

    @property
    def below(self) -> int:
        """The row where right vectors begin."""
        return self.step * self.length

    @property
    def step(self) -> int:
        """Rows that go at once."""
        return self.lanes * self.parts

    @property
    def pitch(self) -> int:
        """Places of a column.

        Work-items side by side find neighbouring columns in different banks.
        """
        return self.step * (self.whole if self.lanes > 1 else self.whole | 1)

    @property
    def room(self) -> tuple[int, int]:
        """The extents of the memory for a matrix."""
        return self.columns, self.pitch

    @property
    def longest(self) -> int:
        """Places of the vectors that left vectors are completed with."""
        return max(self.rows, self.longs, self.columns)

    @property
    def pairs(self) -> int:
        """Pairs of columns in a round of the tournament."""
        return max(1, (self.columns + 1) // 2)

    def local_bytes(self, kind: DType) -> int:
        """Local memory that a workgroup takes."""
        numbers = self.columns * self.pitch if self.held else 0
        real = kind.real.itemsize
        return kind.itemsize * (numbers + 2 * self.longest) + real * 2 * self.columns + _BESIDE


@lru_cache(maxsize=1024)
def rotation_shape(shape: RotationShape, kind: DType, can: Capabilities) -> RotationShape:
    """The shape with lanes, parts and a place that suit a device.

    Parameters
    ----------
    shape : RotationShape
        What is wanted.
    kind : DType
        What is computed in.
    can : Capabilities
        Of the device.
    """
    if can.single_work_items:
        lanes = 1 if kind.is_complex else min(can.vector_bytes, _VECTOR_BYTES) // kind.itemsize
        return _placed(replace(shape, lanes=max(1, lanes)), kind, can)
    parts = min(_PARTS, can.sub_group_size)
    while parts * 2 * _ROWS_OF_PART <= shape.rows and parts * 2 <= can.sub_group_size:
        parts *= 2
    most = min(can.max_workgroup, can.max_workgroup_shape[0])
    while parts > 1 and parts * shape.pairs > most:
        parts //= 2
    return _placed(replace(shape, parts=parts), kind, can)


def _placed(shape: RotationShape, kind: DType, can: Capabilities) -> RotationShape:
    """In local memory, if it fits there."""
    return replace(shape, held=shape.local_bytes(kind) <= can.local_memory_most)
