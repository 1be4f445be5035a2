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
def multiply_steps(
    acc: Any,
    tiles: Any,
    operands: Any,
    steps: Any,
    TILING: Tiling,
    ROTATED: bool = True,
    TRANSPOSED: bool = False,
) -> None:
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
    ROTATED, TRANSPOSED : bool
        As `portable.lang.pipeline` has them.
    """
    kl.pipeline(
        acc,
        tiles,
        operands.start,
        *steps,
        ahead=TILING.ahead,
        valid=operands.valid,
        transposed=TRANSPOSED,
        rotated=ROTATED,
    )
