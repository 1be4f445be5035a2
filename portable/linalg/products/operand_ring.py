"""A ring of slots in local memory through which tiles of operands pass on their way to a product.

While the tiles of one step are multiplied those of the next steps are on their way. A struct of
*operands* knows what they are: its method ``start(left, right, step)`` starts to copy the tiles of
a step, and ``valid(step)`` says how many rows, columns and products of it count.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.linalg.base.tiling import Tiling

__all__ = ["multiply_steps", "start_ring"]


@function
def start_ring(tiles: Any, operands: Any, TILING: Tiling) -> None:
    """Asks for the tiles of the first steps."""
    for step in kl.static_range(TILING.ahead):
        operands.start(tiles[0][step], tiles[1][step], step)
        kl.copy_commit()


@function
def multiply_steps(acc: Any, tiles: Any, operands: Any, steps: Any, TILING: Tiling) -> None:
    """Adds the products of some steps to `acc`, and asks for the tiles of those ahead.

    Parameters
    ----------
    acc : matrix fragment, shape (rows, columns)
        Of the tiling.
    tiles : (array, array)
        Slots, ``TILING.stages`` of them, for left tiles (rows, depth) and right (depth, columns).
    operands : struct
        As the module has it.
    steps : (int, int)
        The first one, and the one after the last; calls go on where those before ended.
    TILING : Tiling
        How many slots there are, and how far ahead copies go.
    """
    AHEAD, STAGES = TILING.ahead, TILING.stages
    for step in range(steps[0], steps[1]):
        if AHEAD > 0:
            kl.copy_wait(AHEAD - 1)
            kl.barrier()
        ahead = step + AHEAD
        slot = ahead % STAGES
        operands.start(tiles[0][slot], tiles[1][slot], ahead)
        kl.copy_commit()
        if AHEAD == 0:
            kl.copy_wait(0)
            kl.barrier()
        now = step % STAGES
        kl.mma(acc, tiles[0][now], tiles[1][now], valid=operands.valid(step))
        if STAGES == 1:
            kl.barrier()
