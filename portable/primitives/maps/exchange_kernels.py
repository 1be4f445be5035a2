"""Element-wise functions of operands whose neighbours lie along another axis than the result's.

Read and written as they lie, an array would be strided on one side. Here both sides are
contiguous: the elements change places on the way, in local memory or between vector lanes.

The last two axes are that along which such operands are contiguous, and that along which the result
is. Arguments are those of `portable.primitives.maps.elementwise_kernel.elementwise`.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import taken, unravelled

__all__ = ["CROSSWISE", "CROSSWISE_REVERSED", "exchange_blocks", "exchange_tiles"]

_AHEAD = 2
"""Squares further along the columns that are fetched meanwhile."""
CROSSWISE = "crosswise"
"""An operand contiguous along the last axis but one."""
CROSSWISE_REVERSED = "crosswise reversed"
"""The same, that axis counted from its end."""


@function
def converted(x: Any, kind: Any) -> Any:
    """`x` in a type to compute in; None: its own."""
    return x if kind is None else kl.cast(x, kind)


@function
def square(number: Any, shape: Any, EDGE: int) -> Any:
    """Where square `number` of a stack of matrices begins: row, column, and its matrix' index."""
    down, across = shape[len(shape) - 2], shape[len(shape) - 1]
    wide, tall = kl.cdiv(across, EDGE), kl.cdiv(down, EDGE)
    outer = unravelled(number // wide // tall, shape[: len(shape) - 2])
    return number // wide % tall * EDGE, number % wide * EDGE, outer


@function
def lies_across(how: Any) -> Any:
    """Whether an operand changes places."""
    return how in (CROSSWISE, CROSSWISE_REVERSED)


@function
def along_column(x: Any, how: Any, row: Any, lanes: Any) -> Any:
    """Where in a column of `x` the first of `lanes` elements from `row` on lies."""
    if how == CROSSWISE_REVERSED:
        return x.shape[x.ndim - 2] - lanes - row
    return row


@function
def applied(OP: Any, values: Any) -> Any:
    """The operation on one to three operands."""
    if len(values) == 1:
        return OP(values[0])
    if len(values) == 2:
        return OP(values[0], values[1])
    return OP(values[0], values[1], values[2])


@function
def operand(x: Any, how: Any, kind: Any, outer: Any, row: Any, column: Any) -> Any:
    """One element of an operand, converted."""
    if lies_across(how):
        return converted(x[*outer, along_column(x, how, row, 1), column], kind)
    return taken(x, how, kind, (*outer, row), column, 1)


# -- between vector lanes -------------------------------------------------------------------


@function
def turned(vectors: Any, LANES: Any) -> Any:
    """As many vectors as they have lanes, lane `r` of vector `k` now being lane `k` of vector `r`.

    Blocks of half the edge change places, then blocks of a quarter within each, and so on.
    """
    half = LANES
    for _ in kl.static_range(4):
        if half > 1:
            half = half // 2
            moved = ()
            for i in kl.static_range(LANES):
                # The upper of two vectors takes what is behind the middle of their blocks.
                upper = i // half % 2
                lower = i - half * upper
                lanes = ()
                for k in kl.static_range(LANES):
                    lanes = (*lanes, k + half * upper + k // half % 2 * (LANES - half))  # type: ignore[assignment]
                mixed = kl.shuffle2(vectors[lower], vectors[lower + half], lanes)
                moved = (*moved, mixed)  # type: ignore[assignment]
            vectors = moved
    return vectors


@function
def rows_of(x: Any, how: Any, kind: Any, outer: Any, row: Any, column: Any, LANES: Any) -> Any:
    """The vectors of a crosswise operand for the rows of a square of `LANES`, converted."""
    found = ()
    first = along_column(x, how, row, LANES)
    ahead = _AHEAD * LANES if how == CROSSWISE else -_AHEAD * LANES
    for k in kl.static_range(LANES):
        at = kl.vload(x, *outer, first, column + k, lanes=LANES, axis=x.ndim - 2, ahead=ahead)
        found = (*found, converted(at, kind))  # type: ignore[assignment]
    found = turned(found, LANES)
    if how == CROSSWISE:
        return found
    last_first = ()
    for r in kl.static_range(LANES):
        last_first = (*last_first, found[LANES - 1 - r])  # type: ignore[assignment]
    return last_first


# -- in local memory ------------------------------------------------------------------------


@function
def place_of(row: Any, LANES: Any) -> Any:
    """Where a row of a square lies in its tile: such that neither side meets in a bank."""
    return row % LANES, row // LANES


@function
def bring(
    tile: Any, x: Any, how: Any, outer: Any, top: Any, left: Any, WIDTH: Any, TALL: Any, LANES: Any
) -> None:
    """Puts a square of an operand into a tile, neighbouring work-items reading neighbours.

    Each takes squares of `LANES`, whose elements change places in its registers.
    """
    i, j = kl.local_id(0) * LANES, kl.local_id(1)
    down, across = x.shape[x.ndim - 2], x.shape[x.ndim - 1]
    for k in kl.static_range(0, WIDTH, TALL):
        far = (j + k) * LANES
        if LANES > 1 and top + i + LANES <= down and left + far + LANES <= across:
            rows = rows_of(x, how, None, outer, top + i, left + far, LANES)
            for r in kl.static_range(LANES):
                kl.vstore(tile, r, kl.local_id(0), far, rows[r])
        else:
            for r in kl.static_range(LANES):
                for c in kl.static_range(LANES):
                    if (top + i + r < down) & (left + far + c < across):
                        row = along_column(x, how, top + i + r, 1)
                        tile[r, kl.local_id(0), far + c] = x[*outer, row, left + far + c]


@function
def exchanged_from(
    tiles: Any,
    arrays: Any,
    outer: Any,
    top: Any,
    left: Any,
    down: Any,
    across: Any,
    lanes: Any,
    OP: Any,
    HOW: Any,
    KINDS: Any,
    LANES: Any,
) -> Any:
    """The operation on `lanes` neighbours of the result, `down` and `across` into a square."""
    values = ()
    for n in kl.static_range(len(HOW)):
        if lies_across(HOW[n]):
            at = (*place_of(down, LANES), across)
            value = kl.vload(tiles[n], *at, lanes=lanes) if lanes > 1 else tiles[n][*at]
            value = converted(value, KINDS[n])
        else:
            value = taken(arrays[n], HOW[n], KINDS[n], (*outer, top + down), left + across, lanes)
        values = (*values, value)  # type: ignore[assignment]
    return applied(OP, values)


@kernel
def exchange_tiles(
    x: Any,
    y: Any,
    z: Any,
    out: Any,
    *,
    OP: Any,
    HOW: Any,
    KINDS: Any,
    WIDTH: int,
    TALL: int,
    LANES: int,
) -> None:
    """``out = OP(x, y, z)``: a workgroup of ``WIDTH, TALL`` does a square of `WIDTH` vectors."""
    arrays = (x, y, z)
    EDGE = WIDTH * LANES
    down, across = out.shape[out.ndim - 2], out.shape[out.ndim - 1]
    top, left, outer = square(kl.group_id(0), out.shape, EDGE)
    tiles = ()
    for n in kl.static_range(len(HOW)):
        if lies_across(HOW[n]):
            tile = kl.local((LANES, WIDTH, EDGE + LANES), arrays[n].dtype)
            bring(tile, arrays[n], HOW[n], outer, top, left, WIDTH, TALL, LANES)
            tiles = (*tiles, tile)  # type: ignore[assignment]
        else:
            tiles = (*tiles, None)  # type: ignore[assignment]
    kl.barrier()
    i, j = kl.local_id(0) * LANES, kl.local_id(1)
    for k in kl.static_range(0, EDGE, TALL):
        row = top + j + k
        if row < down:
            if LANES > 1 and left + i + LANES <= across:
                done = exchanged_from(
                    tiles, arrays, outer, top, left, j + k, i, LANES, OP, HOW, KINDS, LANES
                )
                kl.vstore(out, *outer, row, left + i, done)
            else:
                for c in kl.static_range(LANES):
                    if left + i + c < across:
                        out[*outer, row, left + i + c] = exchanged_from(
                            tiles, arrays, outer, top, left, j + k, i + c, 1, OP, HOW, KINDS, LANES
                        )


# -- in whole vectors -----------------------------------------------------------------------


@function
def exchanged(
    arrays: Any,
    out: Any,
    outer: Any,
    row: Any,
    column: Any,
    OP: Any,
    HOW: Any,
    KINDS: Any,
    LANES: Any,
    STREAMING: Any,
) -> None:
    """Does a square of `LANES`, whole vectors at a time."""
    sources = ()
    for n in kl.static_range(len(HOW)):
        if lies_across(HOW[n]):
            rows = rows_of(arrays[n], HOW[n], KINDS[n], outer, row, column, LANES)
            sources = (*sources, rows)  # type: ignore[assignment]
        else:
            sources = (*sources, None)  # type: ignore[assignment]
    for r in kl.static_range(LANES):
        values = ()
        for n in kl.static_range(len(HOW)):
            if lies_across(HOW[n]):
                value = sources[n][r]  # type: ignore[var-annotated]
            else:
                value = taken(arrays[n], HOW[n], KINDS[n], (*outer, row + r), column, LANES)
            values = (*values, value)  # type: ignore[assignment]
        kl.vstore(out, *outer, row + r, column, applied(OP, values), streaming=STREAMING)


@kernel
def exchange_blocks(
    x: Any,
    y: Any,
    z: Any,
    out: Any,
    *,
    OP: Any,
    HOW: Any,
    KINDS: Any,
    BLOCK: int,
    EDGE: int,
    LANES: int,
    ALONG: bool,
    STREAMING: bool,
) -> None:
    """``out = OP(x, y, z)``: a work-item does a square of `BLOCK`, in squares of `LANES` vectors.

    Those follow each other within squares of `EDGE`, so that lines of the caches and pages of which
    one took a part are at hand for the next; along the result's rows first if `ALONG`.
    """
    arrays = (x, y, z)
    down, across = out.shape[out.ndim - 2], out.shape[out.ndim - 1]
    block_top, block_left, outer = square(kl.global_id(0), out.shape, BLOCK)
    bottom = kl.minimum(block_top + BLOCK, down)
    right = kl.minimum(block_left + BLOCK, across)
    for left in range(block_left, right, EDGE):
        for top in range(block_top, bottom, EDGE):
            for far in range(0, EDGE, LANES):
                for near in range(0, EDGE, LANES):
                    row, column = (far, near) if ALONG else (near, far)
                    row, column = row + top, column + left
                    if LANES > 1 and row + LANES <= bottom and column + LANES <= right:
                        exchanged(arrays, out, outer, row, column, OP, HOW, KINDS, LANES, STREAMING)
                    else:
                        for r in range(row, kl.minimum(row + LANES, bottom)):
                            for c in range(column, kl.minimum(column + LANES, right)):
                                values = ()
                                for n in kl.static_range(len(HOW)):
                                    one = operand(arrays[n], HOW[n], KINDS[n], outer, r, c)
                                    values = (*values, one)  # type: ignore[assignment]
                                out[*outer, r, c] = applied(OP, values)
