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
from portable.lang.ir.facts import Facts
from portable.lang.tiles.lanes import Lanes, divided, remainder
from portable.lang.tiles.mma_shapes import SUMS, RegisterLayout
from portable.lang.tiles.regions import inside, place
from portable.lang.tiles.strategy import kept_dims
from portable.lang.tiles.work import Code, add, mul

REGISTERS: Final = 16
"""What a lane holds of 16 rows and 32 columns."""

_LANES: Final = 4
COLUMNS: Final = 8


def in_quads(layout: RegisterLayout, target: e.Region, facts: Facts) -> bool:
    """Whether registers can be stored so, in an array of whole vectors.

    Parameters
    ----------
    layout : RegisterLayout
        Of the registers.
    target : Region
        Where they go.
    facts : Facts
        Of the kernel.
    """
    *first, (across, step) = (*layout.registers[:3], (1, (0, 0)))[:3]
    if (*first,) != SUMS.registers or step != (0, COLUMNS) or across % _LANES:
        return False
    array, axis = target.array, kept_dims(target)[-1]
    start = target.starts[axis]
    others = (kind for dim, kind in enumerate(array.strides) if dim != axis)
    return (
        array.dtype in (float16, bfloat16)
        and (array.space, array.aligned) == ("global", True)
        and array.strides[axis] == "unit"
        and "unit" not in others
        and facts.multiple_of(start) % COLUMNS == 0
    )


def store_quads(
    code: Code,
    target: e.Region,
    lanes: Lanes,
    row: e.Expression,
    column: e.Expression,
    values: Sequence[e.Expression],
) -> None:
    """Writes what the lanes hold of 16 rows and 32 columns, as far as these exist.

    Parameters
    ----------
    code : Code
        Where to write it.
    target : Region
        Its array's columns are whole vectors.
    lanes : Lanes
        The work-item's.
    row, column : Expression
        Of this lane's first element in the region.
    values : sequence of Expression
        Its `REGISTERS` elements.
    """
    column = add(column, mul(lanes.member, COLUMNS - 2))
    pack = f"pack.{target.array.dtype.short}"
    for lower in (0, 1):
        words = [code.work.variable("traded", uint32) for _ in range(_LANES)]
        for j, word in enumerate(words):
            at = 4 * j + 2 * lower
            code.instruct(pack, outputs=(word,), inputs=(values[at], values[at + 1]))
        _trade(code, words, lanes.member)
        index = place(target, add(row, 8 * lower), column)
        address = ((target.array, index),)
        with code.when(inside(target, index)):
            code.instruct("store.v4.b32", inputs=tuple(words), addresses=address)


def _trade(code: Code, words: Sequence[e.Variable], member: e.Expression) -> None:
    """From every lane's words those of this one's number."""
    low, high = remainder(member, 2), divided(member, 2)
    for distance, bit in ((1, low), (2, high)):
        for i in range(_LANES):
            if not i & distance:
                pair = words[i], words[i + distance]
                code.instruct(f"trade.{distance}", outputs=pair, inputs=(bit,))
