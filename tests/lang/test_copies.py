"""Copies between global and local memory, at once, asynchronous and in bulk, at the edges too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import dtypes
from portable import lang as kl
from portable.backend import Device
from tests.support.launch import run, run_on_views


@pt.kernel
def tiles(x, out, *, TM, TN, ASYNC):
    tile = kl.local((TM, TN), x.dtype)
    m, n = kl.group_id(1) * TM, kl.group_id(0) * TN
    if ASYNC:
        kl.copy_async(tile, x[m : m + TM, n : n + TN])
        kl.copy_commit()
        kl.copy_wait()
    else:
        kl.copy(tile, x[m : m + TM, n : n + TN])
    kl.barrier()
    if ASYNC:
        kl.copy_async(out[m : m + TM, n : n + TN], tile)
        kl.copy_commit()
        kl.copy_wait(0)
    else:
        kl.copy(out[m : m + TM, n : n + TN], tile)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("shape", [(8, 16), (9, 17), (3, 5), (16, 33)], ids=str)
def test_tiles_there_and_back_beyond_the_edges(
    device: Device, shape: tuple[int, int], asynchronous: bool
) -> None:
    x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    groups = pt.groups(-(-shape[1] // 8), -(-shape[0] // 4))
    launcher = tiles[groups, (8, 2)]
    constants = {"TM": 4, "TN": 8, "ASYNC": asynchronous}
    _, found = run(device, launcher, x, np.zeros_like(x), **constants)
    np.testing.assert_array_equal(found, x)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=repr)
def test_tiles_of_every_dtype(device: Device, dtype: dtypes.DType) -> None:
    x = np.arange(7 * 13).reshape(7, 13).astype(dtype.numpy)
    launcher = tiles[pt.groups(2, 2), (8, 2)]
    _, found = run(device, launcher, x, np.zeros_like(x), TM=4, TN=8, ASYNC=True)
    np.testing.assert_array_equal(found, x)


@pt.kernel
def box(x, n, y, z, c, out, *, ASYNC, STEP):
    """A box of four dimensions, as rows of the last."""
    tile = kl.local((2 * 3 * 4, 8), x.dtype)
    part = x[n : n + 2, y : y + 3 * STEP : STEP, z : z + 4, c : c + 8]
    if ASYNC:
        kl.copy_async(tile, part)
        kl.copy_commit()
        kl.copy_wait(0)
    else:
        kl.copy(tile, part)
    kl.barrier()
    kl.copy(out[0:24, 0:8], tile)


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("items", [1, 32])
def test_boxes_are_copied_as_rows(device: Device, items: int, step: int) -> None:
    """What lies outside in any dimension is zero; of some rows every other is taken."""
    x = np.random.default_rng(3).integers(-9, 9, (3, 5, 6, 16)).astype(np.float16)
    edges = [(2, 2), (2, 6), (2, 4), (8, 8)]
    whole = np.pad(x, edges)
    for first in ((0, 1, 2, 8), (-1, -1, 3, 8), (2, 4, -2, 0), (5, 0, 0, 0)):
        low = [start + edge for start, (edge, _) in zip(first, edges, strict=True)]
        extents, steps = (2, 3, 4, 8), (1, step, 1, 1)
        taken = zip(low, extents, steps, strict=True)
        part = tuple(slice(s, s + n * by, by) for s, n, by in taken)
        expected = np.zeros((2, 3, 4, 8), np.float16)
        there = whole[part]
        expected[tuple(slice(0, n) for n in there.shape)] = there
        out = np.zeros((24, 8), np.float16)
        found = run(device, box[pt.groups(1), items], x, *first, out, ASYNC=items > 1, STEP=step)
        np.testing.assert_array_equal(found[-1], expected.reshape(24, 8))


@pt.kernel
def padded(x, out, *, TM, TN):
    """What lies outside reads as zero; the tile itself is written out."""
    tile = kl.local((TM, TN), x.dtype)
    kl.copy_async(tile, x[2 : 2 + TM, 3 : 3 + TN])
    kl.copy_commit()
    kl.copy_wait()
    kl.barrier()
    for k in range(kl.local_id(0), TM * TN, kl.local_size(0)):
        out[k] = tile[k // TN, k % TN]


VIEWS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda x: x,
    "transposed": lambda x: x.T,
    "reversed": lambda x: x[::-1, ::-1],
    "every other": lambda x: x[:, ::2],
    "odd start": lambda x: x[1:, 1:],
}


@pytest.mark.parametrize("name", VIEWS)
def test_outside_reads_as_zero_in_any_view(device: Device, name: str) -> None:
    x = 1 + np.arange(6 * 9, dtype=np.float32).reshape(6, 9)
    part = VIEWS[name](x)[2:10, 3:11]
    expected = np.zeros((8, 8), np.float32)
    expected[: part.shape[0], : part.shape[1]] = part
    views = [VIEWS[name], lambda a: a]
    out = np.full(64, -1, np.float32)
    _, found = run_on_views(device, padded[16, 16], (x, out), views, TM=8, TN=8)
    np.testing.assert_array_equal(found.reshape(8, 8), expected)


@pt.kernel
def transposing(x, out, *, TILE):
    tile = kl.local((TILE, TILE), x.dtype)
    i, j = kl.group_id(0) * TILE, kl.group_id(1) * TILE
    kl.copy(tile.T, x[i : i + TILE, j : j + TILE])
    kl.barrier()
    kl.copy(out[j : j + TILE, i : i + TILE], tile)


def test_a_copy_may_transpose(device: Device) -> None:
    x = np.arange(7 * 10, dtype=np.int32).reshape(7, 10)
    launcher = transposing[pt.groups(2, 3), 16]
    _, found = run(device, launcher, x, np.zeros((10, 7), np.int32), TILE=4)
    np.testing.assert_array_equal(found, x.T)


@pt.kernel
def pipelined(x, out, *, TILE, STAGES):
    """A row of tiles, summed while later ones are on their way."""
    ring = kl.local((STAGES, TILE), x.dtype)
    i = kl.local_id(0)
    tiles_ = kl.cdiv(x.shape[0], TILE)
    for stage in kl.static_range(STAGES - 1):
        kl.copy_async(ring[stage], x[stage * TILE : stage * TILE + TILE])
        kl.copy_commit()
    total = 0.0
    for t in range(tiles_):
        kl.copy_wait(STAGES - 2)
        kl.barrier()
        ahead = t + STAGES - 1
        kl.copy_async(ring[ahead % STAGES], x[ahead * TILE : ahead * TILE + TILE])
        kl.copy_commit()
        total += ring[t % STAGES, i]
    out[i] = total


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_a_ring_of_asynchronous_copies(device: Device, stages: int) -> None:
    x = np.arange(100, dtype=np.float32)
    launcher = pipelined[16, 16]
    _, found = run(device, launcher, x, np.zeros(16, np.float32), TILE=16, STAGES=stages)
    whole = np.concatenate([x, np.zeros(12, np.float32)])
    np.testing.assert_array_equal(found, whole.reshape(-1, 16).sum(0))


@pt.kernel
def in_bulk(x, out, *, TILE):
    tile = kl.local((2, TILE), x.dtype)
    done = kl.completion(2)
    i = kl.local_id(0)
    for t in range(3):
        slot = t % 2
        if i == 0:
            kl.bulk_copy(tile, (slot, 0), x, (kl.group_id(0), t * TILE), TILE, done[slot])
        kl.bulk_wait(done[slot], (t // 2) % 2)
        tile[slot, i] = tile[slot, i] * 2
        kl.barrier()
        if i == 0:
            kl.bulk_copy(out, (kl.group_id(0), t * TILE), tile, (slot, 0), TILE)
            kl.copy_commit()
            kl.copy_wait(0)
        kl.barrier()


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
@pytest.mark.parametrize("shift", [0, 1])
def test_bulk_copies_with_completion(device: Device, dtype: str, shift: int) -> None:
    x = np.arange(2 * 52).reshape(2, 52).astype(dtype)
    views = [lambda a: a[:, shift : shift + 48]] * 2
    args = (x, np.zeros_like(x))
    _, found = run_on_views(device, in_bulk[pt.groups(2), 16], args, views, TILE=16)
    np.testing.assert_array_equal(found[:, shift : shift + 48], 2 * x[:, shift : shift + 48])
    assert not found[:, 48 + shift :].any()
