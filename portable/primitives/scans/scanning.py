"""Running totals along an axis: how they are cut into sections, and launched.

The floor is a copy where each element is read and written once: in rows that a workgroup holds, in
all rows on processors, and in longer ones and in columns where workgroups may wait for each other.
Elsewhere elements are read twice, but where a processor has many columns: that takes three halves
of a copy's time at least. Through NVIDIA's OpenCL an H200 was at 0.98 of its copy's speed with 2^26
`float32` in rows of 8192, and at 0.93 with one row (`float64` 0.92) and along the columns of a
square matrix (`float64` 0.94).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, Final, NamedTuple

from portable.backend import Capabilities
from portable.dtypes import DType
from portable.primitives.base.operands import power_of_two
from portable.primitives.base.recipe import Recipe
from portable.primitives.maps.work import streams
from portable.primitives.reductions import axis
from portable.primitives.reductions.merging import Merge
from portable.primitives.scans.block_kernels import (
    BLOCK_LEVELS,
    Blocks,
    chained_block_scan,
    scan_rows,
)
from portable.primitives.scans.board_kernels import kept_state
from portable.primitives.scans.lookback_kernels import (
    PUBLISHED,
    LookBack,
    Strip,
    chained_scan,
    chained_strip_scan,
)
from portable.primitives.scans.scan_kernels import ColumnScan, Tile, scan_by_workgroup, scan_columns
from portable.primitives.tuning import lines_for, scanned_columns_for
from portable.tune.ways import Way, Ways


class Asked(NamedTuple):
    """What is asked of the ways of a scan: the arguments of `scanned`.

    Attributes
    ----------
    recipe : Recipe
        The steps.
    x, out : Storage
        Arrays of it, not empty.
    merge : Merge
        What is done; `first` does not count.
    shift : int
        0, or 1 where ``out[..., 0]`` is the neutral element and the total of ``x[..., i]`` goes to
        ``out[..., i + 1]``.
    """

    recipe: Recipe
    x: Any
    out: Any
    merge: Merge
    shift: int

    @property
    def can(self) -> Capabilities:
        """Of the device."""
        return self.x.device.capabilities  # type: ignore[no-any-return]

    @property
    def lanes(self) -> int:
        """Neighbours along the axis that are loaded at a time, both where and from where."""
        return min(axis.lanes_for(x, self.merge.kind, -1) for x in (self.x, self.out))

    @property
    def tile(self) -> tuple[int, int]:
        """Work-items along a row, and how many vectors each of them holds."""
        return _tile(self.x.shape[-1], self.lanes, self.merge.kind, self.can)


# Running totals along rows on processors, whose caches hold a block of a row for each core.
#
# The floor is a copy whose result passes the caches by: each element is read from memory once and
# written once. Two busy cores of a Zen 5 were at 0.8 of it with 2^26 `float32` in one row and at
# 0.9 with rows of 8192, on Intel's runtime: 1.0 and 1.3 of a copy that reads what it writes.

# About as long as it takes to add up a block.
_PATIENCE: Final = 1 << 13
_TOGETHER: Final = 1 << 14


def scan_in_blocks(asked: Asked) -> None:
    """Running totals along the last axis into `out`: whole rows, or few long ones in blocks."""
    recipe, x, out, merge, shift = asked
    capabilities = asked.can
    rows, length = prod(x.shape[:-1]), x.shape[-1]
    read, written = axis.lanes_for(x, merge.kind, -1), axis.lanes_for(out, merge.kind, -1)
    lanes = read if written >= read else 1
    merge, streaming = merge.taking(lanes), streams(out.nbytes, capabilities)
    share = lines_for(capabilities)
    wanted = capabilities.compute_units * share.groups
    most = share.size // x.dtype.itemsize
    block = min(most, max(share.shortest, power_of_two(-(-rows * length // wanted))))
    if rows >= wanted or length <= block:
        many = min(max(1, _TOGETHER // length), -(-rows // wanted))
        whole = Blocks(merge, share.shortest, shift, streaming)
        recipe.launch(scan_rows, -(-rows // many), 1, x, out, BLOCKS=whole, ROWS=many)
        return
    blocks = rows * -(-length // block)
    state = kept_state(recipe, x.device, BLOCK_LEVELS * blocks, merge.kind.itemsize)
    items = min(blocks, capabilities.compute_units)
    ahead = share.ahead // x.dtype.itemsize
    cut = Blocks(merge, block, shift, streaming, _PATIENCE, ahead)
    recipe.launch(chained_block_scan, items, 1, x, state, out, BLOCKS=cut)


# -- scanning --------------------------------------------------------------------------------------

_STORED: Final = 16
# Fewer strips than these have too few workgroups at work that need not wait for each other.
_FEWEST: Final = 4


def strips_may_wait(vectors: int, capabilities: Capabilities) -> bool:
    """Whether workgroups may wait for others, and `vectors` side by side are enough of them."""
    may = capabilities.forward_progress and capabilities.atomics64
    share = scanned_columns_for(capabilities)
    may = may and 1 < 2 * share.width <= share.group
    return may and vectors >= _FEWEST * share.width


def scan_in_strips(asked: Asked, lanes: int) -> None:
    """Running totals along the last axis, neighbours lying along the last but one.

    Each element is read and written once. `lanes` neighbours at most are loaded at a time. On an
    H200 four strips were at 0.73 of a copy's speed, 16 at 0.86, 128 at 0.93.

    """
    recipe, x, out, merge, shift = asked
    device, kind = x.device, merge.kind
    columns, length = prod(x.shape[:-1]), x.shape[-1]
    lanes = min(lanes, max(1, _STORED // kind.itemsize))
    share = scanned_columns_for(device.capabilities)
    width, tall = share.width, share.group // share.width
    depth = max(1, share.size // (lanes * kind.itemsize))
    tiles = -(-columns // (width * lanes)) * -(-length // (tall * depth))
    groups = min(tiles, device.capabilities.compute_units * share.groups)
    state = kept_state(recipe, device, PUBLISHED * tiles * width * lanes, kind.itemsize)
    constants = {"STRIP": Strip(merge.taking(lanes), width, tall, depth), "SHIFT": shift}
    items = width * tall
    recipe.launch(chained_strip_scan, groups * items, items, x, state, out, **constants)


def scan_in_tiles(asked: Asked) -> None:
    """Running totals along the last axis, by workgroups that wait for those before.

    Each element is read and written once. `lanes` neighbours are loaded at a time.

    """
    recipe, x, out, merge, shift = asked
    device, kind, lanes = x.device, merge.kind, asked.lanes
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
    recipe.launch(chained_scan, groups * width, width, x, state, out, LOOK=look, SHIFT=shift)


def _most_strips(held: int, given: int, size: int, lanes: int, room: int) -> int:
    """How many vectors of a tile a work-item holds at most: `held` bytes, if there is room.

    `given` and `size` are the bytes of an element and of a total. In its `room` of local memory it
    has its elements of the tile, a total for each vector, and less than four more.
    """
    return max(1, min(held // (lanes * size), (room - 4 * size) // (lanes * given + size)))


_COLUMN_GROUP: Final = 64
_GROUP: Final = 256
_SIZE: Final = 128
"""Bytes of totals that a work-item of a workgroup with whole rows holds at most."""
_NEIGHBOURS: Final = 8
"""Work-items along a row at least, before one of them holds several vectors."""
_SHARES: Final = 8
"""Sections wanted for each compute unit where work-items are alone; the last one is shorter."""
_NARROWEST: Final = 16
_FEW: Final = 32
_SHALLOWEST: Final = 16
_SHALLOW: Final = 64


def scanned(recipe: Recipe, x: Any, out: Any, merge: Merge, shift: int) -> None:
    """Running totals along the last axis into `out`, from the neutral element on if `shift`.

    Parameters
    ----------
    recipe, x, out, merge, shift
        As of `Asked`.
    """
    SCANS.first(Asked(recipe, x, out, merge, shift))()


def _tile(length: int, lanes: int, kind: DType, capabilities: Capabilities) -> tuple[int, int]:
    """Work-items along a row, and how many vectors each of them holds."""
    vectors = power_of_two(-(-length // lanes))
    most = max(1, _SIZE // (lanes * kind.itemsize))
    strips = min(most, max(1, vectors // _NEIGHBOURS))
    return min(_GROUP, capabilities.max_workgroup, vectors // strips), strips


def _scan_rows(asked: Asked) -> None:
    """A tile for each row, and as many rows for a workgroup as it has work-items for."""
    recipe, x, out, merge, shift = asked
    width, strips = asked.tile
    rows = prod(x.shape[:-1])
    tall = max(1, min(_GROUP, x.device.capabilities.max_workgroup) // width)
    held = Tile(merge.taking(asked.lanes), width, strips)
    cut = axis.Sections(held.size, width, tall, one=True)
    constants = {"TILE": held, "CUT": cut, "SHIFT": shift}
    items = width * tall
    recipe.launch(scan_by_workgroup, -(-rows // tall) * items, items, x, None, out, **constants)


def _scan_sections(asked: Asked) -> None:
    """Sums the sections, scans the sums, scans the sections."""
    recipe, x, out, merge, shift = asked
    how, merge = axis.cut(x, asked.lanes), merge.taking(asked.lanes)
    starts = None
    if how.sections > 1:
        totals = recipe.empty((*x.shape[:-1], how.sections), merge.kind)
        axis.launch_by_workgroup(recipe, (x,), (totals,), merge, how)
        starts = recipe.empty(totals.shape, merge.kind)
        scanned(recipe, totals, starts, merge, 0)
    items = prod(x.shape[:-1]) * how.sections * how.width
    held = Tile(merge, how.width, asked.tile[1])
    constants = {"TILE": held, "CUT": replace(how.constant, tall=1), "SHIFT": shift}
    recipe.launch(scan_by_workgroup, items, how.width, x, starts, out, **constants)


def _scan_columns(asked: Asked) -> None:
    recipe, x, out, merge, shift = asked
    capabilities = asked.can
    cpu = capabilities.single_work_items
    rows, length = prod(x.shape[:-1]), x.shape[-1]
    lanes = min(axis.lanes_for(x, merge.kind, -2), axis.lanes_for(out, merge.kind, -2))
    strip = _strip(-(-rows // lanes), capabilities) if cpu else 1
    strips = -(-rows // (lanes * strip))
    group = 1 if cpu else _COLUMN_GROUP
    wanted = -(-capabilities.compute_units * (_SHARES if cpu else 512) // strips)
    section = max(_shallowest(length), power_of_two(-(-length // wanted)))
    sections = -(-length // section)
    if sections > 1 and strips_may_wait(rows // lanes, capabilities):
        scan_in_strips(asked, lanes)
        return
    starts = None
    merge, items = merge.taking(lanes), strips * sections
    full = strips * lanes * strip == rows
    if sections > 1:
        starts = _crosswise(recipe, x, sections, merge.kind)
        totals_alone = ColumnScan(merge, strip, section, totals=True, full=full)
        recipe.launch(scan_columns, items, group, x, None, starts, SCAN=totals_alone)
        if sections > _FEW:
            totals, starts = starts, _crosswise(recipe, x, sections, merge.kind)
            scanned(recipe, totals, starts, merge, 0)
    streaming, last = streams(out.nbytes, capabilities), 1 if sections > _FEW else _FEW
    how = ColumnScan(merge, strip, section, last, shift, streaming, full=full)
    recipe.launch(scan_columns, items, group, x, starts, out, SCAN=how)


def _strip(vectors: int, capabilities: Capabilities) -> int:
    """Vectors side by side for a work-item that is alone: few enough that all have work."""
    share = scanned_columns_for(capabilities)
    wanted = capabilities.compute_units * share.groups
    return min(share.width, vectors, max(_NARROWEST, -(-vectors // wanted)))


def _shallowest(length: int) -> int:
    """The least section of columns: such that they stay few, but no deeper than is worth that."""
    return max(_SHALLOWEST, min(_SHALLOW, power_of_two(-(-length // _FEW))))


def _crosswise(recipe: Recipe, x: Any, sections: int, kind: DType) -> Any:
    """A new array for a number per section, neighbours along the last axis but one as in `x`."""
    made = recipe.empty((sections, *x.shape[:-1]), kind)
    return made.viewed((*made.shape[1:], sections), (*made.strides[1:], made.strides[0]))


def _fits_tile(asked: Asked) -> bool:
    width, strips = asked.tile
    return bool(asked.x.shape[-1] <= width * strips * asked.lanes)


def _one(scan: Callable[[Asked], None]) -> Callable[[Asked], Iterator[Callable[[], None]]]:
    return lambda asked: iter((partial(scan, asked),))


SCANS: Final = Ways[Asked, Callable[[], None]](
    "scan",
    Way(
        "columns",
        "scan_columns chained_strip_scan",
        _one(_scan_columns),
        lambda x: axis.lies_crosswise(x.x),
    ),
    Way(
        "in blocks",
        "chained_block_scan scan_rows",
        _one(scan_in_blocks),
        lambda x: x.can.single_work_items and x.can.atomics64,
    ),
    Way("rows", "scan_by_workgroup", _one(_scan_rows), _fits_tile),
    Way(
        "in tiles",
        "chained_scan",
        _one(scan_in_tiles),
        lambda x: x.can.forward_progress and x.can.atomics64,
    ),
    Way(
        "in sections",
        "reduce_by_workgroup scan_by_workgroup",
        _one(_scan_sections),
    ),
)
"""How running totals are made."""
