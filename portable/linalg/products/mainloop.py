"""The mainloop of products: tiles of operands pass through slots of local memory to the sums.

While the tiles of one step are multiplied those of the next steps are on their way. A *reader*, a
struct, knows what they are: its method ``start(left, right, step)`` starts to copy the tiles of a
step, and ``valid(step)`` says how many rows, columns and products of it count. Which tile of the
result a workgroup makes, and what is done to its sums before they are stored, is up to the kernel.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.linalg.base.tiling import Tiling


@function
def room(operands: tuple[kl.Array, ...], ACC: Any, TILING: Tiling, TRANSPOSED: bool = False) -> Any:
    """Slots for tiles of two operands, as `mainloop` takes them, and the sums of a workgroup."""
    (left, right), (BM, BN, BK, STAGES) = operands, TILING[0:4]
    tile_a = kl.local((STAGES, BK, BM) if TRANSPOSED else (STAGES, BM, BK), left.dtype)
    tile_b = kl.local((STAGES, BK, BN), right.dtype)
    acc = kl.matrix(
        (BM, BN), ACC, scope="workgroup", units=TILING.units, split=TILING.split_of_sums
    )
    return (tile_a, tile_b), acc


@function
def prologue(tiles: tuple[kl.Array, ...], reader: Any, TILING: Tiling) -> None:
    """Asks for the tiles of the first steps."""
    for step in kl.static_range(TILING.ahead):
        reader.start(tiles[0][step], tiles[1][step], step)
        kl.copy_commit()


@function
def mainloop(
    acc: Any,
    tiles: tuple[kl.Array, ...],
    reader: Any,
    steps: tuple[kl.Scalar, ...],
    TILING: Tiling,
    ROTATED: bool = True,
    TRANSPOSED: bool = False,
    AFTER: Any = None,
) -> None:
    """Adds the products of some steps to `acc`, and asks for the tiles of those ahead.

    Parameters
    ----------
    acc : matrix fragment, shape (rows, columns)
        Of the tiling.
    tiles : (array, array)
        Slots, ``TILING.stages`` of them, for left tiles (rows, depth) and right (depth, columns).
    reader : struct
        As the module has it.
    steps : (int, int)
        The first one, and the one after the last; calls go on where those before ended.
    TILING : Tiling
        How many slots there are, and how far ahead copies go.
    ROTATED, TRANSPOSED, AFTER
        As `portable.lang.pipeline` has them.
    """
    kl.pipeline(
        acc,
        tiles,
        reader.start,
        *steps,
        ahead=TILING.ahead,
        valid=reader.valid,
        transposed=TRANSPOSED,
        rotated=ROTATED,
        after=AFTER,
    )


@function
def multiply(
    acc: Any,
    tiles: tuple[kl.Array, ...],
    reader: Any,
    steps: tuple[kl.Scalar, ...],
    TILING: Tiling,
    ROTATED: bool = True,
    TRANSPOSED: bool = False,
    AFTER: Any = None,
) -> None:
    """The products of some steps alone, by `prologue` and `mainloop`, whose arguments it takes."""
    acc.fill(0)
    prologue(tiles, reader, TILING)
    mainloop(acc, tiles, reader, steps, TILING, ROTATED, TRANSPOSED, AFTER)
