"""Stores accumulators as halves, 16 bytes of a row at a time.

A lane holds two neighbours of every 8 columns, 4 bytes as halves. The four lanes that share a row
trade what they hold of 32 columns until each has 8 neighbours: lanes that differ in one bit of
their number swap one of every two words, first for the low bit, then for the high one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from portable.dtypes import bfloat16, float16, uint32
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.facts import Facts
from portable.lang.ir.types import Region
from portable.lang.tiles.lanes import Lanes, divided, remainder
from portable.lang.tiles.mma_shapes import Offset
from portable.lang.tiles.parts import kept_dims
from portable.lang.tiles.regions import place
from portable.lang.tiles.work import Code, add, mul

__all__ = ["REGISTERS", "in_quads", "store_quads"]

REGISTERS: Final = 16
"""What a lane holds of 16 rows and 32 columns."""

_LANES: Final = 4
_COLUMNS: Final = 8


def in_quads(offsets: Sequence[Offset], target: Region, facts: Facts) -> bool:
    """Whether registers can be stored so, where all of the region exists.

    Parameters
    ----------
    offsets : sequence of (int, int)
        Of the registers' elements, row and column.
    target : Region
        Where they go.
    facts : Facts
        Of the kernel.
    """
    first = tuple((8 * h, 8 * j + odd) for j in range(_LANES) for h in (0, 1) for odd in (0, 1))
    whole, rest = divmod(len(offsets), REGISTERS)
    groups = (offsets[i * REGISTERS : (i + 1) * REGISTERS] for i in range(whole))
    if rest or not all(_from_first(group) == first for group in groups):
        return False
    array, axis = target.array, kept_dims(target)[-1]
    start = target.starts[axis]
    others = (kind for dim, kind in enumerate(array.strides) if dim != axis)
    return (
        array.dtype in (float16, bfloat16)
        and (array.space, array.aligned) == ("global", True)
        and array.strides[axis] == "unit"
        and "unit" not in others
        and facts.multiple_of(start) % _COLUMNS == 0  # type: ignore[arg-type]
    )


def _from_first(group: Sequence[Offset]) -> tuple[Offset, ...]:
    row, column = group[0]
    return tuple((i - row, j - column) for i, j in group)


def store_quads(
    code: Code,
    target: Region,
    lanes: Lanes,
    row: e.Expression,
    column: e.Expression,
    values: Sequence[e.Expression],
) -> None:
    """Writes what the lanes hold of 16 rows and 32 columns.

    Parameters
    ----------
    code : Code
        Where to write it.
    target : Region
        All of it exists.
    lanes : Lanes
        The work-item's.
    row, column : Expression
        Of this lane's first element in the region.
    values : sequence of Expression
        Its `REGISTERS` elements.
    """
    column = add(column, mul(lanes.member, _COLUMNS - 2))
    pack = f"pack.{target.array.dtype.short}"
    for lower in (0, 1):
        words = [code.work.variable("traded", uint32) for _ in range(_LANES)]
        for j, word in enumerate(words):
            at = 4 * j + 2 * lower
            code.emit(s.Instruction(pack, (word,), (values[at], values[at + 1]), (), code.loc))
        _trade(code, words, lanes.member)
        index = place(target, add(row, 8 * lower), column)
        address = ((target.array, index),)
        code.emit(s.Instruction("store.v4.b32", (), tuple(words), address, code.loc))


def _trade(code: Code, words: Sequence[e.Variable], member: e.Expression) -> None:
    """From every lane's words those of this one's number."""
    low, high = remainder(member, 2), divided(member, 2)
    for distance, bit in ((1, low), (2, high)):
        for i in range(_LANES):
            if not i & distance:
                pair = words[i], words[i + distance]
                code.emit(s.Instruction(f"trade.{distance}", pair, (bit,), (), code.loc))
