"""Variances, standard deviations, any and all, in the shapes that take different ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable
import portable.array as xp
from portable.backend import Device

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("axis", [None, 0, 1], ids=str)
def test_deviations_small_beside_the_mean(ours: Device, axis: Any) -> None:
    check_deviations(ours, (40, 516), axis)


@pytest.mark.parametrize("axis", [None, 0, 1], ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (7, 33), (40, 128), (3, 20001)], ids=str)
def test_deviations_of_shapes(simulated: Device, shape: tuple[int, ...], axis: Any) -> None:
    check_deviations(simulated, shape, axis)


def check_deviations(ours: Device, shape: tuple[int, ...], axis: Any) -> None:
    a = (RNG.standard_normal(shape) + 4096).astype(np.float32)
    x = ours.from_numpy(a)
    wanted = np.var(a.astype(np.float64), axis=axis)
    np.testing.assert_allclose(portable.to_numpy(xp.var(x, axis=axis)), wanted, 1e-4, 1e-6)
    found = portable.to_numpy(xp.std(x, axis=axis, correction=0.5, keepdims=True))
    a64 = a.astype(np.float64)
    wanted = np.std(a64, axis=axis, ddof=0.5, keepdims=True)
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-6)


def test_deviations_of_views(simulated: Device) -> None:
    a = RNG.standard_normal((6, 9, 8)).astype(np.float32)
    x = simulated.from_numpy(a)
    for axis in ((0, 2), (0, 1), (), 1):
        found = portable.to_numpy(xp.var(x[::2, ::-1, 1:], axis=axis))
        np.testing.assert_allclose(found, np.var(a[::2, ::-1, 1:], axis=axis), 1e-5, 1e-6)


def test_deviations_of_few_and_odd_numbers(simulated: Device) -> None:
    x = simulated.from_numpy(np.array([[1, np.nan], [2, 3], [np.inf, 4]], np.float32))
    assert np.isnan(portable.to_numpy(xp.var(x, axis=1))).tolist() == [True, False, True]
    assert np.isnan(float(xp.var(x[1, :], correction=2)))
    assert np.isnan(float(xp.std(x[:0, 0])))
    assert float(xp.var(xp.full((70000,), 60000.0, dtype=xp.float16, device=simulated))) == 0


@pytest.mark.parametrize("shape", [(4,), (8, 12), (3, 8), (5, 7), (2, 3, 4), (12288,)], ids=str)
@pytest.mark.parametrize("share", [0.0, 0.03, 0.97, 1.0])
def test_bools_in_words(simulated: Device, shape: tuple[int, ...], share: float) -> None:
    check_bools(simulated, shape, share)


@pytest.mark.parametrize("share", [0.0, 0.03, 0.97, 1.0])
def test_many_bools_in_words(ours: Device, share: float) -> None:
    check_bools(ours, (60, 516), share)


def check_bools(ours: Device, shape: tuple[int, ...], share: float) -> None:
    a = RNG.random(shape) < share
    x = ours.from_numpy(a)
    for axis in (None, *range(a.ndim)):
        for mine, theirs in ((xp.any, np.any), (xp.all, np.all)):
            found = portable.to_numpy(mine(x, axis=axis))
            np.testing.assert_array_equal(found, theirs(a, axis=axis))
            found = portable.to_numpy(mine(x[1:], axis=axis, keepdims=True))
            np.testing.assert_array_equal(found, theirs(a[1:], axis=axis, keepdims=True))
