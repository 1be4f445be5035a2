"""Elements by positions along each dimension of views, contiguous and not, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable.array as xp
from portable import to_numpy
from portable.backend import Device
from portable.errors import BadIndexError

RNG = np.random.default_rng(0)
CUBE = RNG.standard_normal((6, 7, 37)).astype(np.float32)


@pytest.mark.parametrize("view", [np.s_[:], np.s_[::2, :, ::-1], np.s_[1:, ::-1]], ids=str)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_take(ours: Device, axis: int, view: Any) -> None:
    a, x = CUBE[view], ours.from_numpy(CUBE)[view]
    extent = a.shape[axis]
    index = RNG.integers(-extent, extent, 19).astype(np.int16)
    found = xp.take(x, ours.from_numpy(index), axis=axis)
    np.testing.assert_array_equal(to_numpy(found), np.take(a, index, axis=axis), strict=True)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_take_along_axis(ours: Device, axis: int) -> None:
    a, x = CUBE[:, ::-1], ours.from_numpy(CUBE)[:, ::-1]
    shape = [1 if d == 1 != axis else n for d, n in enumerate(a.shape)]
    shape[axis] = 5
    index = RNG.integers(-a.shape[axis], a.shape[axis], shape)
    found = xp.take_along_axis(x, ours.from_numpy(index), axis=axis)
    np.testing.assert_array_equal(to_numpy(found), np.take_along_axis(a, index, axis), strict=True)
    with pytest.raises(BadIndexError, match="40 is out of range"):
        xp.take_along_axis(x, ours.from_numpy(index * 0 + 40), axis=axis)


def test_out_of_range(ours: Device) -> None:
    x = ours.from_numpy(CUBE)
    good, bad = (xp.asarray([0, n], device=ours) for n in (6, 7))
    with pytest.raises(BadIndexError, match="7 is out of range for extent 7"):
        xp.take(x, bad, axis=1)
    with pytest.raises(BadIndexError, match="7 is out of range"):
        x[:, bad]
    np.testing.assert_array_equal(to_numpy(xp.take(x, good, axis=1)), CUBE[:, [0, 6]])


def test_an_array_indexes_itself(ours: Device) -> None:
    a = RNG.permutation(50)
    x = ours.from_numpy(a)
    np.testing.assert_array_equal(to_numpy(x[x]), a[a])
    np.testing.assert_array_equal(to_numpy(xp.take(x, x[::2])), a[a[::2]])


def test_rows_are_scattered(ours: Device) -> None:
    a, x = CUBE.copy(), ours.from_numpy(CUBE)
    rows = np.array([5, 0, -3])
    a[rows, 1:, ::3] = a[:3, :6, ::3]
    x[ours.from_numpy(rows), 1:, ::3] = x[:3, :6, ::3]
    np.testing.assert_array_equal(to_numpy(x), a)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("size", [1, 5000, 300_001])
def test_masks_of_every_length(ours: Device, size: int, share: float) -> None:
    size = min(size, 40_000) if ours.interprets else size
    a = RNG.standard_normal(size + 3).astype(np.float32)
    truth = RNG.random(size + 3) < share
    x, mask = ours.from_numpy(a), ours.from_numpy(truth)
    np.testing.assert_array_equal(to_numpy(xp.nonzero(mask)[0]), np.nonzero(truth)[0])
    np.testing.assert_array_equal(to_numpy(x[mask]), a[truth], strict=True)
    np.testing.assert_array_equal(to_numpy(x[3:][mask[:-3]]), a[3:][truth[:-3]])
    np.testing.assert_array_equal(to_numpy(x[::-1][mask]), a[::-1][truth])
