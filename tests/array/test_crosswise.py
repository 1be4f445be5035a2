"""Element-wise functions of operands whose neighbours lie along different axes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import portable
import portable.array as xp
from portable.backend import Device
from portable.primitives.maps import work
from portable.primitives.maps.elementwise import _plans

RNG = np.random.default_rng(0)
SHAPES = [(40, 70), (17, 16), (131, 83), (600, 37), (1, 20), (20, 1), (0, 20), (20, 0)]
PARTS = (np.s_[:], np.s_[::-1], np.s_[:, ::-1], np.s_[1:, 1:], np.s_[::2, ::-2])
EXPRESSIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "one of two": lambda xp, x, y: x.T + y,
    "both": lambda xp, x, y: x.T - x[:, ::-1].T,
    "reversed": lambda xp, x, y: y - x[::-1, ::-1].T,
    "beside a row": lambda xp, x, y: y[:1] - x.T,
    "beside a column": lambda xp, x, y: y[:, :1] - x.T,
    "beside a row reversed": lambda xp, x, y: y[:, ::-1] - x.T,
    "beside a part": lambda xp, x, y: y[..., ::2] - x.T[..., ::2],
    "beside a number": lambda xp, x, y: x.T * 2,
    "three": lambda xp, x, y: xp.where(x.T > 50, y, x.T),
}


def numbers(shape: tuple[int, ...], kind: str = "f4") -> np.ndarray[Any, Any]:
    return RNG.integers(0, 100, shape).astype(kind)


def copied(view: Any) -> np.ndarray[Any, Any]:
    return portable.to_numpy(xp.asarray(view, copy=True))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_copies_of_transposes(ours: Device, shape: tuple[int, ...]) -> None:
    check_copies(ours, shape, PARTS[:2])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_copies_of_parts_of_transposes(simulated: Device, shape: tuple[int, ...]) -> None:
    check_copies(simulated, shape, PARTS)


def check_copies(device: Device, shape: tuple[int, ...], parts: tuple[Any, ...]) -> None:
    a = numbers(shape)
    x = device.from_numpy(a)
    for part in parts:
        np.testing.assert_array_equal(copied(x[part].T), a[part].T)


@pytest.mark.parametrize("kind", ["?", "i1", "f2", "f8", "c8", "c16"])
def test_copies_of_transposes_of_dtypes(ours: Device, kind: str) -> None:
    if kind in ("f8", "c16") and not ours.capabilities.float64:
        pytest.skip(f"{ours.name} lacks double precision")
    a = RNG.integers(0, 2 if kind == "?" else 100, (70, 83)).astype(kind)
    a = a * (1 + 1j) if kind in ("c8", "c16") else a
    x = ours.from_numpy(a.astype(kind))
    np.testing.assert_array_equal(copied(x.T), a.T)
    np.testing.assert_array_equal(copied(x[:, ::-1]), a[:, ::-1])


@pytest.mark.parametrize("kind", ["i1", "f2", "f4"])
def test_tiles_of_vectors(ours: Device, kind: str) -> None:
    """So large that GPUs take several neighbours at a time, in tiles that end beside the array."""
    rows, columns = (140, 150) if ours.interprets else (2200, 2310)
    a = RNG.integers(0, 2, (rows, columns)).astype(kind)
    x = ours.from_numpy(a)
    np.testing.assert_array_equal(copied(x.T), a.T)
    np.testing.assert_array_equal(copied(x[::-1, 1:].T), a[::-1, 1:].T)
    np.testing.assert_array_equal(portable.to_numpy(x.T != x[:, :1].T), a.T != a[:, :1].T)


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_copies_of_permutations(ours: Device, order: tuple[int, ...]) -> None:
    a = numbers((20, 18, 35))
    x = ours.from_numpy(a)
    np.testing.assert_array_equal(copied(xp.permute_dims(x, order)), a.transpose(order))


@pytest.mark.parametrize("name", ["one of two", "reversed", "three"])
def test_expressions(ours: Device, name: str) -> None:
    check_expression(ours, (37, 70), name)


@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.parametrize("shape", [(37, 70), (64, 16), (1, 40), (40, 1)], ids=str)
def test_expressions_of_shapes(simulated: Device, shape: tuple[int, int], name: str) -> None:
    check_expression(simulated, shape, name)


def check_expression(device: Device, shape: tuple[int, int], name: str) -> None:
    a, b = numbers(shape), numbers(shape[::-1])
    x, y = device.from_numpy(a), device.from_numpy(b)
    found = EXPRESSIONS[name](xp, x, y)
    np.testing.assert_array_equal(portable.to_numpy(found), EXPRESSIONS[name](np, a, b))


def test_in_place_and_converted(ours: Device) -> None:
    a, b = numbers((33, 50)), numbers((50, 33), "i2")
    x, y = ours.from_numpy(a), ours.from_numpy(b)
    x += xp.astype(y, xp.float32).T
    np.testing.assert_array_equal(portable.to_numpy(x), a + b.T)
    np.testing.assert_array_equal(portable.to_numpy(xp.astype(y.T, xp.float32)), b.T)
    x[...] = x[:33, :33].T[:, :1]
    np.testing.assert_array_equal(portable.to_numpy(x), np.tile((a + b.T)[:1, :33].T, 50))


@pytest.mark.parametrize("width", [64, 67])
def test_results_that_pass_the_caches_by(
    ours: Device, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "_STREAMED", 0)
    a = numbers((width, 80))
    x = ours.from_numpy(a)
    _plans.clear()
    np.testing.assert_array_equal(portable.to_numpy(x.T * 3), a.T * 3)
    _plans.clear()
