"""Pipelines of tiles: what they compute, and what they refuse."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend import Device
from portable.errors import KernelError
from portable.lang.kernel import kernel
from tests.support.matrices import Reader

TILE = 8


class Turned(Reader):
    """The left tiles' rows are columns of their matrix."""

    def start(self, tile_a: Any, tile_b: Any, step: Any) -> None:
        (BK, BM), BN, row, column = tile_a.shape, tile_b.shape[1], self.row, self.column
        kl.copy_async(tile_a, self.a[step * BK : step * BK + BK, row : row + BM])
        kl.copy_async(tile_b, self.b[step * BK : step * BK + BK, column : column + BN])


@kernel
def piped(
    a: Any, b: Any, out: Any, *, STAGES: int, AHEAD: int, ROTATED: bool, TRANSPOSED: bool
) -> None:
    row, column = kl.group_id(1) * TILE, kl.group_id(0) * TILE
    tile_a = kl.local((STAGES, TILE, TILE), a.dtype)
    tile_b = kl.local((STAGES, TILE, TILE), b.dtype)
    acc = kl.matrix((TILE, TILE), a.dtype, scope="workgroup")
    acc.fill(0)
    reader = Turned(a, b, row, column) if TRANSPOSED else Reader(a, b, row, column)
    for stage in kl.static_range(AHEAD):
        reader.start(tile_a[stage], tile_b[stage], stage)
        kl.copy_commit()
    steps, tiles = kl.cdiv(b.shape[0], TILE), (tile_a, tile_b)
    half, read = steps // 2, reader.start
    kl.pipeline(acc, tiles, read, 0, half, ahead=AHEAD, rotated=ROTATED, transposed=TRANSPOSED)
    kl.pipeline(acc, tiles, read, half, steps, ahead=AHEAD, rotated=ROTATED, transposed=TRANSPOSED)
    acc.store(out[row : row + TILE, column : column + TILE])


@pt.function
def weighted(total: Any, i: Any, j: Any, part: Any, weight: Any, row: Any) -> Any:
    return total + weight * part + 0 * (row + i + j)


class Weighted(NamedTuple):
    """Sums of steps, each by one more than its number."""

    total: Any
    part: Any
    row: Any

    def add(self, step: Any) -> None:
        self.total.map(weighted, self.part, kl.f32(step + 1), self.row)


@kernel
def piped_by_step(a: Any, b: Any, out: Any, *, STAGES: int, AHEAD: int) -> None:
    row, column = kl.group_id(1) * TILE, kl.group_id(0) * TILE
    tile_a = kl.local((STAGES, TILE, TILE), a.dtype)
    tile_b = kl.local((STAGES, TILE, TILE), b.dtype)
    total, part = (kl.matrix((TILE, TILE), a.dtype, scope="workgroup") for _ in range(2))
    total.fill(0)
    reader = Reader(a, b, row, column)
    for stage in kl.static_range(AHEAD):
        reader.start(tile_a[stage], tile_b[stage], stage)
        kl.copy_commit()
    add, steps = Weighted(total, part, row).add, kl.cdiv(b.shape[0], TILE)
    kl.pipeline(part, (tile_a, tile_b), reader.start, 0, steps, ahead=AHEAD, after=add)
    total.store(out[row : row + TILE, column : column + TILE])


@pytest.mark.parametrize(("stages", "ahead"), [(1, 0), (2, 1), (3, 0)])
def test_what_follows_each_product_sees_its_sums(device: Device, stages: int, ahead: int) -> None:
    rng = np.random.default_rng(stages)
    m, n, k = 19, 21, 77
    a, b = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    out = np.empty((m, n), np.float32)
    given = [device.from_numpy(x) for x in (a, b, out)]
    grid = pt.groups(-(-n // TILE), -(-m // TILE))
    piped_by_step[grid, 16](*given, STAGES=stages, AHEAD=ahead)
    weights = np.arange(k) // TILE + 1
    np.testing.assert_array_equal(device.to_numpy(given[2]), (a * weights) @ b)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("rotated", [False, True])
@pytest.mark.parametrize(("stages", "ahead"), [(1, 0), (2, 1), (3, 2), (3, 1), (3, 0)])
def test_a_pipeline_goes_on_where_one_before_ended(
    device: Device, stages: int, ahead: int, rotated: bool, transposed: bool
) -> None:
    rng = np.random.default_rng(stages)
    m, n, k = 19, 21, 150
    a, b = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    out = np.empty((m, n), np.float32)
    given = [device.from_numpy(np.ascontiguousarray(x)) for x in (a.T if transposed else a, b, out)]
    across, down = -(-n // TILE), -(-m // TILE)
    size = min(16, device.capabilities.max_workgroup)
    piped[pt.groups(across, down), (size, 1)](
        *given, STAGES=stages, AHEAD=ahead, ROTATED=rotated, TRANSPOSED=transposed
    )
    np.testing.assert_array_equal(device.to_numpy(given[2]), a @ b)


@pt.function
def meeting(step: Any) -> None:
    kl.barrier()


@pt.function
def beside(value: Any, i: Any, j: Any, c: Any, corner: Any, last: Any) -> Any:
    row, column = kl.minimum(corner[0] + i, c.shape[0] - 1), kl.minimum(corner[1] + j, last)
    return value - c[row, kl.where(c.shape[1] == 1, 0, column)]


@kernel
def piped_beside(a: Any, b: Any, c: Any, last: Any, out: Any) -> None:
    row, column = kl.group_id(1) * TILE, kl.group_id(0) * TILE
    tiles = kl.local((1, TILE, TILE), a.dtype), kl.local((1, TILE, TILE), b.dtype)
    acc = kl.matrix((TILE, TILE), a.dtype, scope="workgroup")
    acc.fill(0)
    read = Reader(a, b, row, column).start
    kl.pipeline(acc, tiles, read, 0, kl.cdiv(b.shape[0], TILE), ahead=0)
    acc.map(beside, c, (row, column), last)
    kl.barrier()
    acc.store(out[row : row + TILE, column : column + TILE])


@pytest.mark.parametrize("workgroup", [1, 16])
@pytest.mark.parametrize(("width", "last"), [(37, 36), (37, 5), (37, 20), (1, 36)])
def test_sums_are_finished_with_what_lies_beside_them(
    device: Device, workgroup: int, width: int, last: int
) -> None:
    """Columns that are clamped, or one for all, are no neighbours to be read as a vector."""
    rng = np.random.default_rng(last)
    m, n, k = 21, 37, 18
    a, b, c = (rng.integers(-9, 9, x).astype(np.float32) for x in ((m, k), (k, n), (m, width)))
    given = [device.from_numpy(x) for x in (a, b, c)]
    out = device.from_numpy(np.empty((m, n), np.float32))
    piped_beside[pt.groups(-(-n // TILE), -(-m // TILE)), workgroup](*given, last, out)
    read = np.minimum(np.arange(n), last) if width > 1 else np.zeros(n, int)
    np.testing.assert_array_equal(device.to_numpy(out), a @ b - c[:, read])


@pt.function
def added(value: Any, other: Any) -> Any:
    return value + other


@kernel
def refused(a: Any, b: Any, *, WHAT: str) -> None:
    tile_a, tile_b = kl.local((2, TILE, TILE), a.dtype), kl.local((2, TILE, TILE), b.dtype)
    acc = kl.matrix((TILE, TILE), a.dtype, scope="workgroup")
    reader, tiles = Reader(a, b, 0, 0), (tile_a, tile_b)
    if WHAT == "ahead":
        kl.pipeline(acc, tiles, reader.start, 0, 3, ahead=2)
    if WHAT == "slots":
        kl.pipeline(acc, (tile_a[0], tile_b), reader.start, 0, 3, ahead=1)
    if WHAT == "numbers":
        third = kl.local((3, TILE, TILE), a.dtype)
        kl.pipeline(acc, (third, tile_b), reader.start, 0, 3, ahead=1)
    if WHAT == "read":
        kl.pipeline(acc, tiles, 3, 0, 3, ahead=1)
    if WHAT == "steps":
        kl.pipeline(acc, tiles, reader.start, 0, 3.5, ahead=1)
    if WHAT == "rotated":
        kl.pipeline(acc, tiles, reader.start, 0, 3, ahead=1, rotated=2)
    if WHAT == "after":
        kl.pipeline(acc, tiles, reader.start, 0, 3, ahead=1, after=3)
    if WHAT == "meeting":
        kl.pipeline(acc, tiles, reader.start, 0, 3, ahead=1, after=meeting)
    if WHAT == "partner":
        acc.map(added, kl.matrix((TILE, 2 * TILE), a.dtype, scope="workgroup"))
    if WHAT == "itself":
        acc.map(added, acc)
    if WHAT == "uniform":
        kl.pipeline(acc, tiles, reader.start, 0, kl.local_id(0), ahead=1)


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("ahead", r"ahead of kl.pipeline is the constant 2 for 2 slots(?s:.*)from 0 to 1"),
        ("slots", "two local arrays of three dimensions"),
        ("numbers", "have 3 and 2 slots"),
        ("read", "read of kl.pipeline is a function"),
        ("steps", "the steps of kl.pipeline are integers"),
        ("rotated", "rotated of kl.pipeline is a constant"),
        ("after", "after of kl.pipeline is a function"),
        ("meeting", "after of kl.pipeline holds Barrier, for which work-items meet"),
        ("partner", r"takes others that are like it(?s:.*)same shape, dtype, scope and use"),
        ("itself", "takes others that are like it, not itself"),
        ("uniform", "may not be reached by the whole workgroup"),
    ],
)
def test_what_a_pipeline_refuses(what: str, text: str) -> None:
    a = np.zeros((TILE, TILE), np.float32)
    with pt.use("simulator"), pytest.raises(KernelError, match=text):
        refused[4, 4](a, a, WHAT=what)
