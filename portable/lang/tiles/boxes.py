"""Copies of tiles that TMA makes: those of boxes of arrays that it can read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from portable.lang.ir import statements as s
from portable.lang.ir.types import Array
from portable.lang.tiles.strategy import alike_dims
from portable.lang.tiles.warp_specialisation import Split
from portable.lang.tiles.work import Work

_MOST: Final = 256
_FARTHEST: Final = 8
"""Elements that a box spans along a dimension, and steps between those that it takes."""


def boxed(
    pieces: Split, panels: Callable[[s.CopyTile], tuple[s.CopyTile, ...]], work: Work
) -> Split:
    """The loop with its copies made by TMA, if it can make all of them.

    Parameters
    ----------
    pieces : Split
        The loop.
    panels : callable
        Gives the copies of panels that one of a tile is made of.
    work : Work
        The kernel in progress.
    """
    copies = tuple(
        y for x in pieces.copies for y in (panels(x) if isinstance(x, s.CopyTile) else (x,))
    )
    tiles = [x for x in copies if isinstance(x, s.CopyTile)]
    if "tensor" not in work.capabilities.async_copy or not all(_is_box(x, work) for x in tiles):
        return pieces
    return replace(pieces, copies=copies, tensor_copies=True)


def _is_box(x: s.CopyTile, work: Work) -> bool:
    """Whether the source is one box, whose rows are those of the panel."""
    source, target = x.source, x.target
    dims = range(source.array.ndim)
    small = all(source.span(d) <= _MOST and source.step(d) <= _FARTHEST for d in dims)
    row = alike_dims(x)[target.array.ndim - 1]
    return small and _is_readable(source.array, work) and source.array.strides[row] == "unit"


def _is_readable(array: Array, work: Work) -> bool:
    """Whether TMA sees the array's elements, which nothing in this kernel changes."""
    unchanged = array.restrict and array not in work.kernel.written
    return array.space == "global" and array.boxed and unchanged
