"""Distinct elements of lines of every length, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable.array as xp
from portable import to_numpy
from portable.backend import Device
from portable.errors import DTypeError

RNG = np.random.default_rng(0)
LONG = pytest.param(100_003, marks=pytest.mark.needs_compiler)


def same(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(to_numpy(found), expected)


@pytest.mark.parametrize("kinds", [1, 50, 10**6])
@pytest.mark.parametrize("size", [1, 2, 1000, 9000, LONG])
def test_lines_of_every_length(ours: Device, size: int, kinds: int) -> None:
    a = RNG.integers(0, kinds, size).astype(np.int32)
    x = ours.from_numpy(a)
    values, first, inverse, counts = np.unique_all(a)
    found = xp.unique_all(x)
    for got, expected in zip(found, (values, first, inverse, counts), strict=True):
        same(got, expected)
    same(xp.unique_values(x), values)
    for got, expected in zip(xp.unique_counts(x), (values, counts), strict=True):
        same(got, expected)
    for got, expected in zip(xp.unique_inverse(x), (values, inverse), strict=True):
        same(got, expected)


def test_each_nan_is_distinct_and_zeros_of_both_signs_are_not(ours: Device) -> None:
    x = ours.from_numpy(np.array([[np.nan, 0.0, 2.0], [-0.0, np.nan, 2.0]], np.float32))
    found = xp.unique_all(x)
    same(found.values, np.array([0, 2, np.nan, np.nan], np.float32))
    same(found.counts, np.array([2, 2, 1, 1]))
    same(found.indices, np.array([1, 2, 0, 4]))
    same(found.inverse_indices, np.array([[2, 0, 1], [0, 3, 1]]))


@pytest.mark.parametrize("shape", [(0,), (3, 0)], ids=str)
def test_nothing(ours: Device, shape: tuple[int, ...]) -> None:
    found = xp.unique_all(xp.zeros(shape, dtype=xp.float32, device=ours))
    assert [part.shape for part in found] == [(0,), (0,), shape, (0,)]
    assert [part.dtype.name for part in found] == ["float32", "int64", "int64", "int64"]


# -- membership ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32", "float16", "int64", "bool"])
@pytest.mark.parametrize("sizes", [(1, 1), (7, 0), (0, 7), (1000, 331), (5000, 2)], ids=str)
def test_members(ours: Device, dtype: str, sizes: tuple[int, int]) -> None:
    a, b = ((RNG.integers(0, 200, size) % 101).astype(dtype) for size in sizes)
    x, y = ours.from_numpy(a), ours.from_numpy(b)
    same(xp.isin(x, y), np.isin(a, b))
    same(xp.isin(x, y, invert=True), np.isin(a, b, invert=True))


def test_members_of_views_and_other_dtypes(ours: Device) -> None:
    a, b = RNG.integers(-50, 50, (40, 30)), RNG.integers(-50, 50, (6, 8)).astype(np.int8)
    x, y = ours.from_numpy(a), ours.from_numpy(b)
    same(xp.isin(x[::-2, 3:].T, y[:, ::3]), np.isin(a[::-2, 3:].T, b[:, ::3]))
    same(xp.isin(ours.from_numpy(b), ours.from_numpy(a / 2)), np.isin(b, a / 2))


def test_members_that_are_numbers(ours: Device) -> None:
    x = ours.from_numpy(np.array([[1, 2], [3, 2]], np.uint8))
    same(xp.isin(x, 2), np.array([[False, True], [False, True]]))
    same(xp.isin(3, x), np.array(True))
    same(xp.isin(7, x, invert=True), np.array(True))
    with pytest.raises(TypeError, match="at least one array"):
        xp.isin(1, 2)  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match="isin takes real numbers"):
        xp.isin(xp.astype(x, xp.complex64), x)


def test_nan_is_a_member_of_nothing(ours: Device) -> None:
    x = ours.from_numpy(np.array([np.nan, 0.0, np.inf, -np.inf, 1.0], np.float32))
    y = ours.from_numpy(np.array([np.nan, np.inf, -0.0], np.float32))
    same(xp.isin(x, y), np.array([False, True, True, False, False]))
