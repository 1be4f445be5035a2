"""Positions of least and greatest elements, in every way that they are found, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable
import portable.array as xp
from portable import to_numpy
from portable.backend import Device
from portable.primitives.reductions import stateful
from portable.primitives.tuning import best_for

RNG = np.random.default_rng(0)


def some(dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Numbers among which the best come several times, and NaN where there is one."""
    a = RNG.integers(0, 5, shape).astype(dtype)
    if a.dtype.kind == "f":
        a.flat[a.size // 2 :: 97] = np.nan
    return a


@pytest.fixture(autouse=True)
def short_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small arrays are cut, too."""
    monkeypatch.setattr(stateful, "_BLOCK", 64)
    monkeypatch.setattr(stateful, "best_for", lambda x: best_for(x)._replace(depth=64))


def check(device: Device, name: str, a: np.ndarray[Any, Any]) -> None:
    x = device.from_numpy(a)
    for axis in (None, *range(a.ndim)):
        found = to_numpy(getattr(xp, name)(x, axis=axis))
        np.testing.assert_array_equal(found, getattr(np, name)(a, axis=axis), strict=True)
    found = to_numpy(getattr(xp, name)(x[::-1, ...], axis=0, keepdims=True))
    np.testing.assert_array_equal(found, getattr(np, name)(a[::-1], axis=0, keepdims=True))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("shape", [(1,), (333,), (4, 130), (130, 4), (3, 70, 9)], ids=str)
def test_every_way(simulated: Device, name: str, dtype: str, shape: tuple[int, ...]) -> None:
    check(simulated, name, some(dtype, shape))


@pytest.mark.parametrize(("name", "shape"), [("argmax", (333,)), ("argmin", (70, 32))])
def test_on_the_device(ours: Device, name: str, shape: tuple[int, ...]) -> None:
    check(ours, name, some("float32", shape))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_columns_that_make_no_vectors_and_short_rows(ours: Device, axis: int) -> None:
    """Few columns become rows first, axes that stay are taken together."""
    random = np.random.default_rng(0)
    for shape in ((70, 3, 5), (3, 90, 7), (4, 5, 100), (2, 3, 16)):
        a = random.integers(0, 30, shape).astype(np.float32)
        a[tuple(extent // 2 for extent in shape)] = np.nan
        x = ours.from_numpy(a)
        np.testing.assert_array_equal(
            portable.to_numpy(xp.argmax(x, axis=axis)), np.argmax(a, axis=axis)
        )
        np.testing.assert_array_equal(
            portable.to_numpy(xp.argmin(x, axis=axis)), np.argmin(a, axis=axis)
        )
