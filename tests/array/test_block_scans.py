"""Running totals in blocks that work-items draw, and of whole rows, as processors do them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import portable
import portable.array as xp
from portable import lang as kl
from portable.backend import Capabilities, Device
from portable.dtypes import DType, complex64, complex128, float32, float64, int32, int64
from portable.primitives.maps import work
from portable.primitives.reductions.merging import Merge
from portable.primitives.scans import scanning
from portable.primitives.scans.block_kernels import (
    BLOCK_LEVELS,
    Blocks,
    chained_block_scan,
    scan_rows,
)
from portable.primitives.tuning import Lines

RNG = np.random.default_rng(0)
BLOCK = 40
KINDS = [
    ("float16", float32, 16),
    ("float32", float32, 8),
    ("float64", float64, 2),
    ("int8", int64, 8),
    ("int32", int32, 1),
    ("complex64", complex64, 1),
    ("complex128", complex128, 1),
]


def _in_short_blocks(lines_for: Any, capabilities: Capabilities) -> Lines:
    """As the table says, in blocks of fewer elements."""
    found: Lines = lines_for(capabilities)
    return found._replace(shortest=64)


def cut_by(size: int, kind: DType, lanes: int, shift: int) -> Blocks:
    streaming = lanes * kind.itemsize == 64
    merge = Merge(kl.add, kind, 0, lanes=lanes)
    return Blocks(merge, size, shift, streaming, patience=9, ahead=64)


def in_blocks(
    device: Device,
    a: np.ndarray,
    kind: DType,
    lanes: int,
    items: int = 3,
    lost: int = 0,
    **how: Any,
) -> list[np.ndarray]:
    """The kernel, twice with the same state; `lost` tickets are drawn by nobody who works."""
    blocks = a.size // a.shape[-1] * -(-a.shape[-1] // BLOCK)
    words = np.zeros(1 + BLOCK_LEVELS * blocks * (kind.itemsize // 4), np.uint64)
    words[0] = lost
    x, state = device.from_numpy(a), device.from_numpy(words)
    cut = replace(cut_by(BLOCK, kind, lanes, 0), **how)
    found = []
    for _ in range(1 if lost else 2):
        out = device.empty((*a.shape[:-1], a.shape[-1] + cut.shift), kind)
        chained_block_scan[items, 1](x, state, out, BLOCKS=cut)
        found.append(device.to_numpy(out))
    return found


@pytest.mark.parametrize("shape", [(333,), (3, 103)], ids=str)
@pytest.mark.parametrize(("given", "kind", "lanes"), KINDS)
def test_blocks_go_on_from_those_before(
    ours: Device, given: str, kind: DType, lanes: int, shape: tuple[int, ...]
) -> None:
    a = (RNG.standard_normal(shape) * 4).astype(given)
    expected = np.cumsum(a, axis=-1, dtype=kind.numpy)
    found, again = in_blocks(ours, a, kind, lanes)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(again, found)


def test_products_and_the_total_of_nothing(ours: Device) -> None:
    a = np.sign(RNG.standard_normal((2, 119)))
    merge = Merge(kl.multiply, float64, 1, lanes=2)
    for found in in_blocks(ours, a, float64, 2, merge=merge, shift=1):
        np.testing.assert_array_equal(found[:, 1:], np.cumprod(a, axis=1))
        np.testing.assert_array_equal(found[:, 0], 1)


@pytest.mark.parametrize(("blocks", "items"), [(1, 3), (3, 3), (4, 3), (17, 1)])
def test_more_and_fewer_blocks_than_work_items(ours: Device, blocks: int, items: int) -> None:
    a = RNG.integers(-(2**31), 2**31, blocks * BLOCK, dtype=np.int32)
    for length in (a.size - 39, a.size):
        for found in in_blocks(ours, a[:length], int32, 8, items):
            np.testing.assert_array_equal(found, np.cumsum(a[:length], dtype=np.int32))


@pytest.mark.parametrize("patience", [0, 9])
@pytest.mark.parametrize("lost", [1, 2, 5])
def test_nobody_waits_for_those_who_do_not_come(ours: Device, lost: int, patience: int) -> None:
    a = RNG.standard_normal((2, 3 * BLOCK + 7)).astype(np.float32)
    (whole, _) = in_blocks(ours, a, float32, 8)
    (found,) = in_blocks(ours, a, float32, 8, lost=lost, patience=patience)
    row, block = divmod(lost, 4)
    # The lost blocks are not written; what comes after them is the same, bit by bit.
    np.testing.assert_array_equal(found[row, block * BLOCK :], whole[row, block * BLOCK :])
    np.testing.assert_array_equal(found[row + 1 :], whole[row + 1 :])


@pytest.mark.parametrize("rows", [1, 4, 7])
@pytest.mark.parametrize(("given", "kind", "lanes"), KINDS)
def test_whole_rows(ours: Device, given: str, kind: DType, lanes: int, rows: int) -> None:
    a = RNG.integers(0, 5, (7, 37)).astype(given)
    out = ours.empty((7, 38), kind)
    items = -(-7 // rows)
    scan_rows[items, 1](ours.from_numpy(a), out, ROWS=rows, BLOCKS=cut_by(32, kind, lanes, 1))
    found = ours.to_numpy(out)
    np.testing.assert_array_equal(found[:, 1:], np.cumsum(a, axis=1, dtype=kind.numpy))
    assert not found[:, 0].any()


@pytest.mark.parametrize("shape", [(1013,), (3, 1013), (1013, 3), (2, 3, 511), (309, 96)], ids=str)
def test_blocks_and_strips_that_pass_the_caches_by(
    ours: Device, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    short = partial(_in_short_blocks, scanning.lines_for)
    monkeypatch.setattr(scanning, "lines_for", short)
    monkeypatch.setattr(work, "_STREAMED", 0)
    a = RNG.integers(-9, 9, shape).astype(np.float32)
    x = ours.from_numpy(a)
    for axis in range(a.ndim):
        found = xp.cumulative_sum(x, axis=axis)
        np.testing.assert_array_equal(portable.to_numpy(found), np.cumsum(a, axis=axis))
    turned = xp.cumulative_sum(xp.flip(x, axis=-1), axis=-1)
    np.testing.assert_array_equal(portable.to_numpy(turned), np.cumsum(a[..., ::-1], axis=-1))
