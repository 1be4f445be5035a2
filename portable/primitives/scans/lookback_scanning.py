"""Running totals of long rows in one pass: how they are cut into tiles, and launched."""

from __future__ import annotations

from math import prod
from typing import Any

from portable.primitives.base.recipe import Recipe
from portable.primitives.reductions.merging import Merge
from portable.primitives.scans.kept_state import kept_state
from portable.primitives.scans.lookback_kernels import LookBack, scan_in_turn
from portable.primitives.scans.scan_kernels import Tile
from portable.primitives.scans.tuning import lines_for

__all__ = ["scan_in_tiles"]


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
    share = lines_for(device.capabilities)
    width, room = share.group, device.capabilities.local_memory // share.group
    most = _most_strips(share.size, x.dtype.itemsize, kind.itemsize, lanes, room)
    along = -(-x.shape[-1] // (width * lanes * most))
    # Rows of a few tiles are shared out evenly.
    strips = -(-x.shape[-1] // (width * lanes * along))
    tiles = prod(x.shape[:-1]) * along
    groups = min(tiles, device.capabilities.compute_units * share.groups)
    state = kept_state(recipe, device, tiles, kind.itemsize)
    look = LookBack(Tile(merge.taking(lanes), width, strips), share.span)
    recipe.launch(scan_in_turn, groups * width, width, x, state, out, LOOK=look, SHIFT=shift)


def _most_strips(held: int, given: int, size: int, lanes: int, room: int) -> int:
    """How many vectors of a tile a work-item holds at most: `held` bytes, if there is room.

    `given` and `size` are the bytes of an element and of a total. In its `room` of local memory it
    has its elements of the tile, a total for each vector, and less than four more.
    """
    return max(1, min(held // (lanes * size), (room - 4 * size) // (lanes * given + size)))
