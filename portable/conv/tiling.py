"""How workgroups multiply tiles, as the table of tuned parameters has it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from portable.tune.space import Parameters

__all__ = ["Tiling"]


class Tiling(NamedTuple):
    """A constant of kernels.

    Attributes
    ----------
    rows, columns, depth : int
        Of the result's tile, and of a step of the sums.
    stages : int
        Slots of the ring of operand tiles.
    units : bool
        Whether matrix units may multiply.
    split : bool
        Whether they may multiply single precision, as sums of two numbers of 11 bits.
    apart : bool
        Whether some of the workgroup only copy.
    """

    rows: int
    columns: int
    depth: int
    stages: int
    units: bool
    split: bool = False
    apart: bool = False

    @classmethod
    def of(cls, choice: Parameters) -> Tiling:
        """That of a choice of the tuning table; gemm's have no splits."""
        return _tiling(
            choice["BM"],
            choice["BN"],
            choice["BK"],
            choice["STAGES"],
            choice["UNITS"],
            choice.get("SPLIT", False),
            choice.get("APART", False),
        )


@lru_cache(maxsize=1024)
def _tiling(*values: Any) -> Tiling:
    """The same object for the same values, by which launches know them again."""
    return Tiling(*values)
