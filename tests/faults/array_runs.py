"""Runs of array functions: reductions, scans, sorts, masks, copies and transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

import portable as pt
import portable.array as xp
from portable import lang as kl
from portable.conv.direct.adding import add_up_filters, add_up_taps
from portable.conv.direct.box_kernels import arrange_along_channels
from portable.conv.direct.parted import part_pixels
from portable.conv.geometry import Window
from portable.dtypes import int32, int64, uint8, uint64
from portable.linalg.products.rows import copy_into
from portable.primitives.base.recipe import Recipe
from portable.primitives.masks.compaction import Results
from portable.primitives.masks.mask_kernels import Mask, pack_by_workgroup, take_by_workgroup
from portable.primitives.reductions.axis import Sections
from portable.primitives.reductions.kernels import (
    reduce_at_once,
    reduce_by_workgroup,
    reduce_strips,
)
from portable.primitives.reductions.merging import Merge
from portable.primitives.reductions.stateful import Best
from portable.primitives.scans.block_kernels import BLOCK_LEVELS, Blocks, chained_block_scan
from portable.primitives.scans.lookback_kernels import (
    PUBLISHED,
    LookBack,
    Strip,
    chained_scan,
    chained_strip_scan,
)
from portable.primitives.scans.scan_kernels import Tile as TileOfRows
from portable.primitives.scans.scan_kernels import scan_by_workgroup
from portable.primitives.sorts.bucket_kernels import (
    Divided,
    Halving,
    Sorting,
    divide,
    sort_parts,
)
from portable.primitives.sorts.keys import Line, Order, Tile
from portable.primitives.sorts.sorting_kernels import sort_by_rank
from portable.primitives.sorts.sweep_sorting import sweep_sorted
from portable.sparse.products import Rows, csr_add_carried, csr_even_by_vector, csr_mark_shares
from tests.faults.running import close, device, empty, random, run


def integers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-9, 9, shape).astype(np.int32)


def ours(a: np.ndarray) -> Any:
    """An array of `portable.array` on the simulator."""
    return device().for_arrays().from_numpy(a)


ONES = Merge(kl.add, int32, 0)
PAIRS = ONES.taking(2)


def equal(found: Any, wanted: Any) -> None:
    np.testing.assert_array_equal(pt.to_numpy(found), wanted)


@run
def reductions_at_once() -> None:
    """Parts by five workgroups a row, the last of which merges them."""
    a = np.random.default_rng(1).integers(-9, 9, (2, 150)).astype(np.int32)
    x = device().from_numpy(a)
    parts, counts, out = empty(2, 5, kind=int32), np.zeros(2, np.int32), empty(2, kind=int32)
    for _ in range(2):
        reduce_at_once[10 * 8, 8](x, parts, counts, out, MERGE=PAIRS, WIDTH=8, AHEAD=2)
        np.testing.assert_array_equal(out, a.sum(1))


@pt.kernel
def collected(x: Any, out: Any) -> None:
    i = kl.local_id(0)
    for k in range(2):
        out[0, i] += kl.workgroup_reduce(kl.add, x[k, i])
        out[1, i] += kl.workgroup_scan(kl.add, x[k, i], inclusive=False, initial=k)
        out[2, i] += kl.workgroup_broadcast(x[k, i], 9)
        some, every = kl.workgroup_any(x[k, i] > 8), kl.workgroup_all(x[k, i] > 0)
        out[3, i] += kl.i32(some) * 2 + kl.i32(every)


@run
def collectives() -> None:
    """By three sub-groups, the last of them half as wide as others."""
    a, out = integers(2, 20), empty(4, 20, kind=int32)
    out[:] = 0
    collected[20, 20](a, out)
    np.testing.assert_array_equal(out[0], a.sum())
    np.testing.assert_array_equal(out[1], (np.cumsum(a, 1) - a).sum(0) + 1)
    np.testing.assert_array_equal(out[2], a[:, 9].sum())
    np.testing.assert_array_equal(out[3], ((a > 8).any(1) * 2 + (a > 0).all(1)).sum())


@run
def parts_added_up() -> None:
    """Of 30 filters' taps, by eight work-items an element."""
    a = np.random.default_rng(1).integers(-9, 9, (37, 2, 3, 5, 1)).astype(np.float32)
    out = empty(2, 3, 5, 1)
    add_up_filters[4 * 64, 64](a, out, 1, ROWS=8)
    np.testing.assert_array_equal(out, a.sum(0))


@run
def parts_of_taps_added_up() -> None:
    """Of five filters' three channels, by eight work-items."""
    a = np.random.default_rng(1).integers(-9, 9, (2, 3, 2, 5, 3)).astype(np.float32)
    out = empty(5 * 3 * 6)
    add_up_taps[2 * 8, 8](a, out, 3, 1, TAPS=(3, 2))
    np.testing.assert_array_equal(out, a.sum(0).transpose(2, 3, 0, 1).reshape(-1))


@run
def filters_turned() -> None:
    """Filters of 2 x 3 taps, 40 channels of 50, in tiles of 20 filters by 32."""
    w = random(50, 40, 2, 3)
    out = empty(40, 6, 50)
    arrange_along_channels[4 * 64, 64](w, out, TAPS=(2, 3), EACH=20, TURNED=True)
    np.testing.assert_array_equal(out, w[:, :, ::-1, ::-1].reshape(50, 40, 6).transpose(1, 2, 0))


@run
def parts_of_pixels() -> None:
    """Of 5 channels of two images of 3 x 4, as windows of 1 x 2 see them."""
    x, out = random(2, 5, 3, 4), empty(2, 9, 64)
    window = Window((1, 2), (1, 1), (0, 0), (1, 1))
    part_pixels[2 * 2 * 64, 64](x, out, 3, WINDOW=window, PLACES=8, TURNED=True, BLOCKS=1)
    seen = np.concatenate([x[..., :3], x[..., 1:]], 1).transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(out[..., :10] + out[..., 32:42], seen.reshape(2, 9, 10))


@run
def reductions_together() -> None:
    a = np.random.default_rng(1).integers(-9, 9, (3, 150)).astype(np.int32)
    out = empty(3, 1, kind=int32)
    cut = Sections(150, 16, 2, one=True)
    reduce_by_workgroup[2 * 32, 32]((a,), (out,), FOLD=PAIRS, CUT=cut)
    np.testing.assert_array_equal(out[:, 0], a.sum(1))


@run
def totals_looked_back_at() -> None:
    """Tiles of 16 by three workgroups, one row of nine and a part of one."""
    state = np.zeros(1 + 10, np.uint64)
    look = LookBack(TileOfRows(ONES, 16, 1), 1)
    for a in integers(2, 150):
        out = empty(150, kind=int32)
        chained_scan[3 * 16, 16](a, state, out, LOOK=look, SHIFT=0)
        np.testing.assert_array_equal(out, np.cumsum(a))


@run
def totals_of_blocks() -> None:
    state = np.zeros(1 + 10 * BLOCK_LEVELS, np.uint64)
    blocks = Blocks(PAIRS, 10, shift=0, streaming=False, patience=2)
    for a in integers(2, 95):
        out = empty(95, kind=int32)
        chained_block_scan[3, 1](a, state, out, BLOCKS=blocks)
        np.testing.assert_array_equal(out, np.cumsum(a))


@run
def totals_of_strips() -> None:
    """Down columns, in tiles of four rows by three workgroups."""
    state = np.zeros(1 + PUBLISHED * 2 * 6 * 4, np.uint64)
    strip = Strip(ONES, width=4, tall=4, depth=1)
    for a in integers(2, 22, 8):
        out = empty(22, 8, kind=int32)
        chained_strip_scan[3 * 16, 16](a.T, state, out.T, STRIP=strip, SHIFT=0)
        np.testing.assert_array_equal(out, np.cumsum(a, axis=0))


@run
def totals_of_sections() -> None:
    a = integers(3, 75)
    out = empty(3, 75, kind=int32)
    tile = TileOfRows(PAIRS, 8, 2)
    cut = Sections(75, 8, 2, one=True)
    scan_by_workgroup[2 * 16, 16](a, None, out, TILE=tile, CUT=cut, SHIFT=0)
    np.testing.assert_array_equal(out, np.cumsum(a, axis=1))


@run
def reductions_of_strips() -> None:
    a = integers(70, 11)
    parts, counts, out = empty(3, 11, kind=int32), np.zeros(2, np.int32), empty(11, kind=int32)
    for _ in range(2):
        reduce_strips[6 * 32, 32](a.T, parts, counts, out, MERGE=ONES, WIDTH=8, TALL=4)
        np.testing.assert_array_equal(out, a.sum(0))


@run
def positions_of_the_greatest() -> None:
    a = integers(3, 75)
    values, out = empty(3, 1, kind=int32), empty(3, 1, kind=int64)
    how = {"FOLD": Best(True, int32, int32, 2), "CUT": Sections(75, 16, 2, one=True)}
    reduce_by_workgroup[2 * 32, 32]((a, None), (values, out), **how)
    np.testing.assert_array_equal(out[:, 0], a.argmax(1))


@run
def variances() -> None:
    a = random(5, 300)
    close(pt.to_numpy(xp.var(ours(a), axis=1)), a.var(axis=1))


def sorted_by(tile: Tile, a: np.ndarray) -> None:
    x = ours(a)
    recipe = Recipe(x)
    values, order = sweep_sorted(recipe, x, False, values=True, order=True, tile=tile)
    found = recipe.finish(values, order)(x)
    equal(found[0], np.sort(a))
    equal(found[1], np.argsort(a, kind="stable"))


@run
def sorting_in_a_tile() -> None:
    sorted_by(Tile(3, 32), np.random.default_rng(1).integers(0, 200, (2, 70)).astype(np.uint8))


@run
def sorting_tile_by_tile() -> None:
    sorted_by(Tile(1, 32), np.random.default_rng(1).integers(0, 200, 110).astype(np.uint8))


@run
def sorting_by_halves() -> None:
    """Work-items alone, each with sections of its own, and then with a bucket of all."""
    a = np.random.default_rng(1).integers(0, 200, 70).astype(np.uint8)
    order = Order("u", 8, False)
    counts, edges = empty(4, 3, kind=int32), empty(4, 3, kind=int32)
    lines = [Line(empty(70, kind=uint8), None) for _ in range(2)]
    divided, room = Divided(lines[0], counts, edges), Line(empty(2, 32, kind=uint8), None)
    halving = Halving(order, 4, 2)
    divide[2, 1](a, np.sort(a[:8]), divided, room, HALVING=halving, SECTION=32)
    starts = (np.cumsum(counts.reshape(-1)).reshape(4, 3) - counts).astype(np.int32)
    sorting, parts = Sorting(order, 4, 2), (None, starts, divided, lines[1])
    sort_parts[2, 1](*parts, Line(empty(2 * 24, kind=uint8), None), 0, 24, SORTING=sorting)
    sort_parts[4, 1](*parts, lines[0], 25, 0, SORTING=sorting)
    np.testing.assert_array_equal(lines[1].elements, np.sort(a))


@run
def sorting_by_rank() -> None:
    a, out = integers(3, 7).astype(np.uint8), empty(3, 7, kind=uint8)
    order = Order("u", 8, False)
    sort_by_rank[21, 8](a, Line(out, None), EACH=1, ORDER=order)
    np.testing.assert_array_equal(out, np.sort(a))


@run
def distinct_values() -> None:
    a = integers(1500)
    found = xp.unique_all(ours(a))
    wanted = np.unique_all(a)
    equal(found.values, wanted.values)
    equal(found.counts, wanted.counts)
    equal(found.inverse_indices, wanted.inverse_indices)


@run
def elements_of_a_mask() -> None:
    a = random(1500)
    equal(ours(a)[ours(a) > 0.2], a[a > 0.2])
    equal(ours(a)[ours(a) > 2], a[a > 2])


@run
def elements_of_a_mask_by_sections() -> None:
    """A mask that a workgroup does not hold."""
    a = np.random.default_rng(1).random(1100) < 0.6
    a[1024:1090] = False
    cut = {"WIDTH": 32}
    bits, counts = empty(2 * 32, kind=uint64), empty(2, kind=int32)
    pack_by_workgroup[2 * 32, 32](Mask(a), bits, counts, **cut)
    out = empty(int(a.sum()), kind=int64)
    ends = np.cumsum(counts).astype(np.int32)
    given = (Mask(a, None, bits, ends), Results(None, a, out, a.sum()), None)
    take_by_workgroup[2 * 32, 32](*given, **cut, AHEAD=2, FEW=64)
    np.testing.assert_array_equal(out, np.flatnonzero(a))


@run
def transposed_sums() -> None:
    a, b = integers(19, 21), integers(21, 19)
    equal(ours(a).T + ours(b), a.T + b)


@run
def assignments_beyond_an_array() -> None:
    found = ours(random(20))
    with np.testing.assert_raises(IndexError):
        found[ours(np.array([3, 19, 20, 0, 4]))] = ours(np.arange(5, dtype=np.float32))


def transformed(*shape: int) -> None:
    a = random(*shape) + 1j * random(*shape)
    a = a.astype(np.complex64)
    close(pt.to_numpy(xp.fft.fft(ours(a))), np.fft.fft(a))


@run
def transforms_of_rows() -> None:
    transformed(3, 96)


@run
def transforms_of_long_rows() -> None:
    """In three stages."""
    transformed(1, 512)


@run
def uneven_rows_by_a_vector() -> None:
    counts = np.r_[0, 0, 3, 150, 1, 1, 90, 2]
    offsets = np.r_[0, np.cumsum(counts)].astype(np.int32)
    data, columns = integers(counts.sum()), np.arange(counts.sum(), dtype=np.int32) % 7
    x, out = integers(7), np.zeros(8, np.int32)
    shares = -(-(8 + counts.sum()) // 64)
    sums = np.zeros((shares, 1), np.int32)
    a = Rows(data, columns, offsets)
    starts = np.zeros(shares + 1, np.int64)
    csr_mark_shares[shares + 1, 32](offsets, int(counts.sum()), starts, SIZE=64)
    csr_even_by_vector[pt.groups(shares), 32](a, x, out, starts, sums, ACC=int32, EACH=2, ITEMS=32)
    csr_add_carried[shares, 32](offsets, starts, sums, out.reshape(-1, 1), SIZE=64)
    wanted = [total.sum() for total in np.split(data * x[columns], offsets[1:-1])]
    np.testing.assert_array_equal(out, wanted)


@run
def transposes_of_weights() -> None:
    a, out = random(19, 21), empty(21, 19)
    copy_into(a.T, out)
    np.testing.assert_array_equal(out, a.T)
