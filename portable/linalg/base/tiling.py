"""How workgroups multiply tiles, as the table of tuned parameters has it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from portable.tune.space import Parameters


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
    split : bool, "first", "exact", "given" or "blocks"
        Whether they may multiply single precision, as of `portable.lang.matrix`; "blocks": sums of
        a step go into those of the tile by factors of its own.
    warp_specialised : bool
        Whether warps that do nothing but copy, or ask TMA, run ahead of those
        that multiply, as far as there are slots; elsewhere a tile is only asked for when it is
        wanted.
    group : int
        Rows of tiles that are worked off side by side (`tile_position`).
    split_k : bool
        Whether sums are cut into parts, for results of too few tiles to keep a device busy.
    persistent : bool
        Whether a workgroup makes tiles in turn, of which the next one's operands are asked for
        while one is stored; those that are `warp_specialised` alone.
    """

    rows: int
    columns: int
    depth: int
    stages: int
    units: bool
    split: Any = False
    warp_specialised: bool = False
    group: int = 8
    split_k: bool = False
    persistent: bool = False

    @property
    def by_blocks(self) -> bool:
        """Whether each step has factors of its own."""
        return bool(self.split == "blocks")

    @property
    def split_of_sums(self) -> Any:
        """What matrices of sums have for `split`."""
        return "first" if self.by_blocks else self.split

    @property
    def ahead(self) -> int:
        """Steps that operands are asked for before they are multiplied."""
        return 0 if self.warp_specialised else self.stages - 1

    @classmethod
    def of(cls, choice: Parameters, *, split: Any = False, split_k: bool = False) -> Tiling:
        """That of a choice of the tuning table, of which some say whether to split."""
        return _tiling(
            choice["BM"],
            choice["BN"],
            choice["BK"],
            choice["STAGES"],
            choice["UNITS"],
            choice.get("SPLIT", split),
            choice.get("SPECIALISED", False),
            choice.get("GROUP", 8),
            split_k,
            bool(choice.get("SPECIALISED", False) and choice.get("RESIDENT", 0)),
        )


@lru_cache(maxsize=1024)
def _tiling(*values: Any) -> Tiling:
    """The same object for the same values, by which launches know them again."""
    return Tiling(*values)
