"""Running totals of long rows in one pass: how they are cut into tiles, and launched."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from portable.primitives.base.recipe import Recipe
from portable.primitives.reductions.merging import Merge
from portable.primitives.scans.kept_state import kept_state
from portable.primitives.scans.lookback_kernels import LookBack, scan_in_turn
from portable.primitives.scans.scan_kernels import Tile

__all__ = ["scan_in_tiles"]

_GROUP: Final = 128
_GROUPS_PER_UNIT: Final = 3
# Blocks of tiles that are looked at together: about as many tiles as there are workgroups.
_SPAN: Final = 3
_BYTES_PER_ITEM: Final = 224


def scan_in_tiles(recipe: Recipe, x: Any, out: Any, merge: Merge, shift: int, lanes: int) -> None:
    """Running totals along the last axis, by workgroups that wait for those before.

    Each element is read and written once. `lanes` neighbours are loaded at a time.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    x, out : Storage
        Arrays of it.
    merge : Merge
        What is done.
    shift : int
        As of `scanned`.
    lanes : int
        Neighbours that are loaded at a time.
    """
    device, kind = x.device, merge.kind
    most = _most_strips(x.dtype.itemsize, kind.itemsize, lanes, device.capabilities.local_memory)
    along = -(-x.shape[-1] // (_GROUP * lanes * most))
    # Rows of a few tiles are shared out evenly.
    strips = -(-x.shape[-1] // (_GROUP * lanes * along))
    tiles = prod(x.shape[:-1]) * along
    groups = min(tiles, device.capabilities.compute_units * _GROUPS_PER_UNIT)
    state = kept_state(recipe, device, tiles, kind.itemsize)
    look = LookBack(Tile(merge.taking(lanes), _GROUP, strips), _SPAN)
    recipe.launch(scan_in_turn, groups * _GROUP, _GROUP, x, state, out, LOOK=look, SHIFT=shift)


def _most_strips(given: int, size: int, lanes: int, local_memory: int) -> int:
    """How many vectors of a tile a work-item holds at most: as many as there is room for.

    `given` and `size` are the bytes of an element and of a total. Local memory holds the elements
    of a tile, a total for each vector, and less than four for each work-item.
    """
    most = _BYTES_PER_ITEM // (lanes * size)
    room = local_memory // _GROUP - 4 * size
    return max(1, min(most, room // (lanes * given + size)))
