"""Running totals of columns in one pass: how they are cut into tiles, and launched."""

from __future__ import annotations

from math import prod
from typing import Any, Final

from portable.backend import Capabilities
from portable.primitives.base.recipe import Recipe
from portable.primitives.reductions.merging import Merge
from portable.primitives.scans.kept_state import kept_state
from portable.primitives.scans.strip_lookback_kernels import Strip, scan_strips_in_turn

__all__ = ["scan_in_strips", "strips_may_wait"]

_GROUP: Final = 256
_WIDTH: Final = 16
_STORED: Final = 16
_BYTES_PER_ITEM: Final = 256
_GROUPS_PER_UNIT: Final = 2
# Fewer strips than these have too few workgroups at work that need not wait for each other.
_FEWEST: Final = 4


def strips_may_wait(vectors: int, capabilities: Capabilities) -> bool:
    """Whether workgroups may wait for others, and `vectors` side by side are enough of them."""
    may = capabilities.forward_progress and capabilities.atomics64
    may = may and capabilities.max_workgroup >= 2 * _WIDTH
    return not capabilities.lone_work_items and may and vectors >= _FEWEST * _WIDTH


def scan_in_strips(recipe: Recipe, x: Any, out: Any, merge: Merge, shift: int, lanes: int) -> None:
    """Running totals along the last axis, neighbours lying along the last but one.

    Each element is read and written once. `lanes` neighbours at most are loaded at a time. On an
    H200 four strips were at 0.73 of a copy's speed, 16 at 0.86, 128 at 0.93.

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
    columns, length = prod(x.shape[:-1]), x.shape[-1]
    lanes = min(lanes, max(1, _STORED // kind.itemsize))
    group = min(_GROUP, device.capabilities.max_workgroup)
    tall = group // (2 * _WIDTH) * 2
    depth = max(1, _BYTES_PER_ITEM // (lanes * kind.itemsize))
    tiles = -(-columns // (_WIDTH * lanes)) * -(-length // (tall * depth))
    groups = min(tiles, device.capabilities.compute_units * _GROUPS_PER_UNIT)
    state = kept_state(recipe, device, 2 * tiles * _WIDTH * lanes, kind.itemsize)
    constants = {"STRIP": Strip(merge.taking(lanes), _WIDTH, tall, depth), "SHIFT": shift}
    items = _WIDTH * tall
    recipe.launch(scan_strips_in_turn, groups * items, items, x, state, out, **constants)
