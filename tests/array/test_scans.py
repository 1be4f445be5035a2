"""Running totals in one pass and in several, on rows short and long."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable
import portable.array as xp
from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType, complex64, complex128, float32, float64, int32, int64
from portable.primitives.reductions.merging import Merge
from portable.primitives.scans.lookback_kernels import (
    PUBLISHED,
    LookBack,
    Strip,
    chained_scan,
    chained_strip_scan,
)
from portable.primitives.scans.scan_kernels import Tile

RNG = np.random.default_rng(0)


def in_turn(
    device: Device,
    a: np.ndarray,
    kind: DType,
    lanes: int,
    shift: int = 0,
    merge: Any = kl.add,
    initial: int = 0,
    groups: int = 5,
) -> list[np.ndarray]:
    """The kernel, twice with the same state, on tiles far smaller than those in use."""
    tiles = a.size // a.shape[-1] * -(-a.shape[-1] // (32 * lanes))
    x = device.from_numpy(a)
    state = device.from_numpy(np.zeros(1 + tiles * (kind.itemsize // 4), np.uint64))
    look = LookBack(Tile(Merge(merge, kind, initial, lanes=lanes), 16, 2), 2)
    found = []
    for _ in range(2):
        out = device.empty((*a.shape[:-1], a.shape[-1] + shift), kind)
        chained_scan[groups * 16, 16](x, state, out, LOOK=look, SHIFT=shift)
        found.append(device.to_numpy(out))
    return found


@pytest.fixture
def waiting(ours: Device) -> Device:
    """A device on which workgroups may wait for each other."""
    if "pocl" in ours.name:
        pytest.skip("PoCL 3.0 does not leave a loop that holds barriers and waits")
    return ours


@pytest.mark.needs_forward_progress
@pytest.mark.parametrize("shape", [(333,), (3, 103)], ids=str)
@pytest.mark.parametrize(
    ("given", "kind", "lanes"),
    [
        ("float16", float32, 8),
        ("float32", float32, 4),
        ("float64", float64, 2),
        ("int8", int64, 8),
        ("complex64", complex64, 1),
        ("complex128", complex128, 1),
    ],
)
def test_workgroups_wait_for_what_comes_before(
    waiting: Device, given: str, kind: DType, lanes: int, shape: tuple[int, ...]
) -> None:
    a = (RNG.standard_normal(shape) * 4).astype(given)
    expected = np.cumsum(a, axis=-1, dtype=kind.numpy)
    found, again = in_turn(waiting, a, kind, lanes)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(again, found)
    if given == "float64":
        signs = np.sign(a)
        for products in in_turn(waiting, signs, kind, lanes, 1, kl.multiply, 1):
            np.testing.assert_array_equal(products[..., 1:], np.cumprod(signs, axis=-1))
            np.testing.assert_array_equal(products[..., 0], 1)


@pytest.mark.needs_forward_progress
@pytest.mark.parametrize(("tiles", "groups"), [(1, 3), (6, 7), (7, 7), (8, 7), (17, 1), (35, 2)])
def test_more_and_fewer_tiles_than_workgroups(waiting: Device, tiles: int, groups: int) -> None:
    a = RNG.integers(-(2**31), 2**31, tiles * 32, dtype=np.int32)
    for length in (a.size - 31, a.size):
        for found in in_turn(waiting, a[:length], int32, 1, groups=groups):
            np.testing.assert_array_equal(found, np.cumsum(a[:length], dtype=np.int32))


def strips_in_turn(
    device: Device, a: np.ndarray, kind: DType, lanes: int, shift: int, groups: int
) -> list[np.ndarray]:
    """Running totals down the columns, twice with the same state, in tiles of 8 rows."""
    rows, columns = a.shape
    tiles = -(-columns // (4 * lanes)) * -(-rows // 8)
    x = device.from_numpy(a)
    words = tiles * 4 * lanes * (kind.itemsize // 4)
    state = device.from_numpy(np.zeros(1 + PUBLISHED * words, np.uint64))
    strip = Strip(Merge(kl.add, kind, 0, lanes=lanes), width=4, tall=4, depth=2)
    found = []
    for _ in range(2):
        out = device.empty((rows + shift, columns), kind)
        arrays = (xp.permute_dims(x, (1, 0)), state, xp.permute_dims(out, (1, 0)))
        chained_strip_scan[groups * 16, 16](*arrays, STRIP=strip, SHIFT=shift)
        found.append(device.to_numpy(out))
    return found


@pytest.mark.needs_forward_progress
@pytest.mark.parametrize(
    ("given", "kind", "lanes"),
    [
        ("int8", int64, 4),
        ("float32", float32, 4),
        ("float64", float64, 2),
        ("int32", int32, 1),
        ("complex64", complex64, 1),
    ],
)
@pytest.mark.parametrize(("rows", "groups"), [(5, 3), (79, 7), (80, 1)])
def test_workgroups_wait_for_what_is_above(
    waiting: Device, given: str, kind: DType, lanes: int, rows: int, groups: int
) -> None:
    a = RNG.integers(-9, 9, (rows, 10 * lanes)).astype(given)
    for found in strips_in_turn(waiting, a, kind, lanes, rows % 2, groups):
        wanted = np.cumsum(a, axis=0, dtype=kind.numpy)
        np.testing.assert_array_equal(found[rows % 2 :], wanted)
        np.testing.assert_array_equal(found[: rows % 2], 0)


@pytest.mark.parametrize("initial", [False, True])
def test_rows_of_several_tiles(ours: Device, initial: bool) -> None:
    a = RNG.integers(-9, 9, (2, 17001)).astype(np.float32)
    found = portable.to_numpy(
        xp.cumulative_sum(ours.from_numpy(a), axis=1, include_initial=initial)
    )
    np.testing.assert_array_equal(found[:, int(initial) :], np.cumsum(a, axis=1))
    assert not initial or not found[:, 0].any()


@pytest.mark.parametrize("columns", [1, 3, 40, 513])
def test_many_short_rows(ours: Device, columns: int) -> None:
    a = RNG.integers(-9, 9, (301, columns)).astype(np.float32)
    found = portable.to_numpy(xp.cumulative_sum(ours.from_numpy(a), axis=1))
    np.testing.assert_array_equal(found, np.cumsum(a, axis=1))


@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("shape", [(1000, 24), (3, 650, 16), (3000, 5), (520, 260)], ids=str)
def test_columns_in_sections(ours: Device, shape: tuple[int, ...], initial: bool) -> None:
    a = RNG.integers(-9, 9, shape).astype(np.float32)
    axis = int(np.argmax(shape))
    x = ours.from_numpy(a)
    found = portable.to_numpy(xp.cumulative_sum(x, axis=axis, include_initial=initial))
    start = np.zeros_like(a.take([0] if initial else [], axis=axis))
    expected = np.concatenate([start, np.cumsum(a, axis=axis)], axis=axis)
    np.testing.assert_array_equal(found, expected)


def test_totals_beyond_nan_and_infinities(ours: Device) -> None:
    a = np.ones(20000, np.float32)
    a[[9000, 18000]] = np.inf, -np.inf
    found = portable.to_numpy(xp.cumulative_sum(ours.from_numpy(a)))
    with np.errstate(invalid="ignore"):
        expected = np.cumsum(a)
    np.testing.assert_array_equal(found, expected)
    assert np.isnan(expected[-1])
