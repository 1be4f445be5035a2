"""Sorting by digits in workgroups: how rows are cut into tiles, and launched.

The floor is to read elements once to count them, and to read and write them once for each digit.
Through NVIDIA's OpenCL an H200 was at 0.3 of it with 2^26 `uint32` in one row, in 2.2 to 2.4 ms:
0.7 to 0.8 of the speed of CuPy's `sort`, and as fast as its `argsort`. By count of its accesses,
local memory takes most of a pass. Where workgroups do not wait and each pass counts tiles first, 32
bits took as long, and 64 a tenth longer.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np

from portable.backend import Capabilities
from portable.dtypes import DType, int32, int64, uint32, uint64
from portable.primitives.base.geometry import power_of_two
from portable.primitives.base.recipe import Recipe
from portable.primitives.base.storage import contiguous_strides
from portable.primitives.maps.creation_kernels import counted, spaced
from portable.primitives.maps.elementwise_kernel import Share
from portable.primitives.sorts.keys import DIGIT_BITS, RADIX, Order
from portable.primitives.sorts.lines import Line
from portable.primitives.sorts.radix_passes import (
    begins_of,
    buffers_for,
    digits_of,
    in_words,
    order_of,
    passes,
    place_for,
)
from portable.primitives.sorts.sweep_kernels import (
    Counting,
    Ways,
    count_by_workgroup,
    place_by_workgroup,
    sort_by_workgroup,
)
from portable.primitives.sorts.tile_order import Tile
from portable.primitives.sorts.tuning import pieces_for

__all__ = ["Tile", "can_sweep", "sweep_sorted", "tile_for"]

_NARROWEST: Final = 32
# Odd, so that work-items next to each other find theirs in different banks.
_EACHES: Final = (3, 7, 11, 15)
# Where there are fewer rows, workgroups are as wide as these have work for.
_ROWS_PER_UNIT: Final = 4
# Elements of each work-item whose notes take the place of its counters.
_COUNTERS: Final = 11
_ALIGNMENT: Final = 256
_AHEAD: Final = 8
# Two bits of a count say what it counts.
_LONGEST_IN_32_BITS: Final = 2**30 - 1
_LANES: Final = 4
_GROUP: Final = 256
_SHORTEST_SECTION: Final = 16384


def tile_for(x: Any, capabilities: Capabilities) -> Tile:
    """Tiles for rows like those of `x`; empty where local memory has no room for any."""
    length, rows = x.shape[-1], prod(x.shape[:-1])
    share = pieces_for(capabilities)
    fitting = [e for e in _EACHES if e <= share.each]
    room = capabilities.local_memory
    eaches = [e for e in fitting if _bytes_for(x, e, share.group) <= room] or [0]
    width = _NARROWEST
    if rows < capabilities.compute_units * _ROWS_PER_UNIT:
        width = min(share.group, max(width, power_of_two(-(-length // _EACHES[0]))))
    while width < share.group and length > eaches[-1] * width:
        width *= 2
    return Tile(next((each for each in eaches if length <= each * width), eaches[-1]), width)


def _bytes_for(x: Any, each: int, width: int) -> int:
    """Local memory of the widest workgroup, if its work-items hold `each` elements of `x`."""
    digits = RADIX * (int32.itemsize + place_for(x.shape[-1]).itemsize)
    elements: int = each * x.dtype.itemsize + max(each, _COUNTERS) * uint32.itemsize
    return digits + elements * width + _ALIGNMENT


def can_sweep(x: Any) -> bool:
    """Whether the device of `x` has workgroups and local memory for tiles of its elements."""
    capabilities: Capabilities = x.device.capabilities
    wide = capabilities.max_workgroup >= pieces_for(capabilities).group > 1
    return wide and tile_for(x, capabilities).each > 0


def sweep_sorted(
    recipe: Recipe, x: Any, descending: bool, *, values: bool, order: bool, tile: Tile | None = None
) -> tuple[Any, Any]:
    """The last axis of `x` sorted, and where its elements were; what is not asked for is None.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    x : Storage
        An array of it, not empty.
    descending : bool
        Whether the greatest come first.
    values, order : bool
        Whether the elements in order, and where they were, are wanted.
    tile : Tile, optional
        How much a workgroup holds; by default what suits the device.
    """
    tile = tile or tile_for(x, x.device.capabilities)
    keys = order_of(x.dtype, descending)
    if x.shape[-1] > tile.size:
        return _tile_by_tile(recipe, x, tile, values, order, keys)
    out = recipe.empty(x.shape, x.dtype) if values else None
    places = recipe.empty(x.shape, int64) if order else None
    items, given = prod(x.shape[:-1]) * tile.width, (in_words(x), Line(in_words(out), places))
    constants = {"TILE": tile, "DIGITS": digits_of(x.dtype), "ORDER": keys}
    recipe.launch(sort_by_workgroup, items, tile.width, *given, **constants)
    return out, places


def _tile_by_tile(
    recipe: Recipe, x: Any, tile: Tile, values: bool, order: bool, keys: Order
) -> tuple[Any, Any]:
    """Passes over memory, one for each digit."""
    buffers = buffers_for(recipe, x, values=values, order=order)
    items = prod(x.shape[:-1]) * -(-x.shape[-1] // tile.size) * tile.width
    waits = _Waits(recipe, in_words(x), tile, digits_of(x.dtype), keys) if _can_wait(x) else None
    constants = {"TILE": tile, "ORDER": keys}
    for digit, source, was, out, becomes in passes(x, buffers, values=values):
        shift = np.int32(digit * DIGIT_BITS)
        ways = waits.of(digit) if waits else _of_tiles(recipe, source, tile, shift, keys)
        arrays = (Line(source, was), ways, Line(out, becomes), shift)
        recipe.launch(place_by_workgroup, items, tile.width, *arrays, **constants)
    out, places = buffers[0]
    return (out if values else None), places


def _can_wait(x: Any) -> bool:
    """Whether workgroups may wait for the counts of others, which take 64 bits for long rows."""
    capabilities: Capabilities = x.device.capabilities
    return capabilities.forward_progress and (
        x.shape[-1] <= _LONGEST_IN_32_BITS or capabilities.atomics64
    )


def _of_tiles(recipe: Recipe, x: Any, tile: Tile, shift: Any, keys: Order) -> Ways:
    """Where in each row each tile's elements of a digit begin, and nothing to wait for."""
    rows, tiles = prod(x.shape[:-1]), -(-x.shape[-1] // tile.size)
    counts = recipe.empty((rows, RADIX, tiles), int32)
    _count(recipe, x, counts, shift, Counting(tile.size, _AHEAD, tile.width, 1), keys)
    return Ways(begins_of(recipe, counts, place_for(x.shape[-1])), None, None)


class _Waits:
    """What passes need whose workgroups wait for each other; all digits are counted beforehand."""

    def __init__(self, recipe: Recipe, x: Any, tile: Tile, digits: int, keys: Order) -> None:
        rows, length = prod(x.shape[:-1]), x.shape[-1]
        self._slots = rows * -(-length // tile.size) * RADIX
        self._states = digits * (1 + self._slots)
        size = self._states + rows * digits * RADIX
        self._zeros = _zeros(recipe, size, uint32 if length <= _LONGEST_IN_32_BITS else uint64)
        counts = _part(self._zeros, self._states, (rows, digits * RADIX))
        capabilities = x.device.capabilities
        wanted = capabilities.compute_units * pieces_for(capabilities).groups
        section = max(_SHORTEST_SECTION, power_of_two(-(-length * rows // wanted)))
        counting = Counting(section, _AHEAD, tile.width, digits)
        _count(recipe, x, counts, np.int32(0), counting, keys)
        counts = _part(self._zeros, self._states, (rows, digits, RADIX, 1))
        self._begins = begins_of(recipe, counts, place_for(length))

    def of(self, digit: int) -> Ways:
        """Where a digit's elements begin, and a ticket and a state, both zeros, for its pass."""
        begins = self._begins.part((slice(None), digit, slice(None), 0))
        first = digit * (1 + self._slots)
        ticket = _part(self._zeros, first, (1,))
        return Ways(begins, ticket, _part(self._zeros, first + 1, (self._slots,)))


def _count(
    recipe: Recipe, x: Any, counts: Any, shift: Any, counting: Counting, keys: Order
) -> None:
    """Counts digits from bit `shift` on."""
    groups = prod(x.shape[:-1]) * -(-x.shape[-1] // counting.section)
    items, constants = groups * counting.width, {"COUNTING": counting, "ORDER": keys}
    recipe.launch(count_by_workgroup, items, counting.width, x, counts, shift, **constants)


def _zeros(recipe: Recipe, count: int, dtype: DType) -> Any:
    """A new array of zeros."""
    zeros, zero = recipe.empty((count,), dtype), np.int32(0)
    formula = {"OP": counted, "KIND": int32, "SHARE": Share(_LANES, _LANES, 1, False)}
    items, group = (-(-count // _LANES), 1), (_GROUP, 1)
    recipe.launch(spaced, items, group, zero, zero, None, zeros, **formula)
    return zeros


def _part(x: Any, first: int, shape: tuple[int, ...]) -> Any:
    """Elements of a one-dimensional array from `first` on, in a shape."""
    size = x.dtype.itemsize
    return x.viewed(shape, contiguous_strides(shape, size), x.offset + first * size)
