"""All ways of sorting against NumPy, on every device whichever it uses by itself."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import portable
from portable import dtypes, to_numpy
from portable.backend import Device
from portable.primitives.base.recipe import Recipe
from portable.primitives.sorts import sorting, sweep_sorting
from portable.primitives.sorts.keys import Tile
from portable.primitives.sorts.sorting import bucket_sorted, rank_sorted
from portable.primitives.sorts.sweep_sorting import sweep_sorted

RNG = np.random.default_rng(0)
DTYPES = ["bool", "int8", "uint16", "int32", "uint64", "int64", "float16", "float64", "complex64"]
TILE = Tile(1, 64)
METHODS = {
    "ranks": rank_sorted,
    "rows": bucket_sorted,
    "tile": partial(sweep_sorted, tile=Tile(3, 32)),
    "tiles": partial(sweep_sorted, tile=TILE),
}
SHAPES = {"tiles": (2, TILE.size + 6)}


def numbers(dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Numbers of which some are equal, and the special ones."""
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        found = RNG.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind, endpoint=True)
        return np.where(RNG.random(shape) < 0.5, found, found[..., :1])
    if kind.kind == "b":
        return RNG.random(shape) < 0.5
    special = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-7, 2.5, -1.25])
    if kind.kind == "c":
        pairs = RNG.choice(special, (*shape, 2)).astype(f"f{kind.itemsize // 2}")
        return pairs.view(kind)[..., 0]
    chosen = np.where(
        RNG.random(shape) < 0.5, RNG.choice(special, shape), RNG.standard_normal(shape)
    )
    return chosen.astype(kind)


def stable_order(a: np.ndarray[Any, Any], descending: bool) -> np.ndarray[Any, Any]:
    """The positions that sort the last axis, NaN being greatest, by the ranks of the elements."""
    if a.dtype.kind == "c":
        parts = [np.unique(part, return_inverse=True)[1] for part in (a.imag, a.real)]
        keys = [-part.reshape(a.shape) if descending else part.reshape(a.shape) for part in parts]
        return np.lexsort(keys, axis=-1)
    ranks = np.unique(a, return_inverse=True)[1].reshape(a.shape)
    return np.argsort(-ranks if descending else ranks, axis=-1, kind="stable")


def check(
    device: Device,
    method: str,
    a: np.ndarray[Any, Any],
    *,
    values: bool = True,
    order: bool = True,
    descending: bool | None = None,
) -> None:
    """Sorts in descending order what is unsigned or complex, else in ascending order."""
    if descending is None:
        descending = a.dtype.kind in "uc"
    expected = stable_order(a, descending)
    x = device.from_numpy(a)
    recipe = Recipe(x)
    found = METHODS[method](recipe, x, descending, values=values, order=order)
    arrays = [array for array in found if array is not None]
    results = recipe.finish(*arrays)(x)
    results = results if len(arrays) > 1 else (results,)
    if values:
        np.testing.assert_array_equal(to_numpy(results[0]), np.take_along_axis(a, expected, -1))
    if order:
        np.testing.assert_array_equal(to_numpy(results[-1]), expected)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(simulated: Device, dtype: str, method: str) -> None:
    # Every kind of positions takes more of the time in which kernels are translated.
    order = method != "tiles" or dtype in ("uint16", "float16", "int64")
    check(simulated, method, numbers(dtype, SHAPES.get(method, (2, 37))), order=order)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("wanted", ["values", "order"])
def test_one_of_two(simulated: Device, method: str, wanted: str) -> None:
    wants = {"values": wanted == "values", "order": wanted == "order"}
    check(simulated, method, numbers("uint16", SHAPES.get(method, (2, 37))), **wants)


@pytest.mark.parametrize("method", METHODS)
def test_on_the_device(ours: Device, method: str) -> None:
    if ours.capabilities.vendor == "pocl" and method.startswith("tile"):
        pytest.skip("PoCL compiles kernels of so many barriers for half a minute")
    check(ours, method, numbers("float32", (2, 70)))


@pytest.mark.parametrize("dtype", ["uint16", "float32", "float64", "complex64", "complex128"])
def test_buckets(ours: Device, monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    monkeypatch.setattr(sorting, "_SHORTEST", 300)
    check(ours, "rows", numbers(dtype, (2, 331)), order=dtype != "uint16")


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
def test_buckets_by_halves(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    """Whole vectors, what is left of them, buckets beyond their room; races are looked for."""
    monkeypatch.setattr(sorting, "_SHORTEST", 300)
    monkeypatch.setattr(sorting, "_ROOM", 1)
    processor = portable.device("simulator:intel-cpu").for_arrays()
    check(processor, "rows", numbers(dtype, (2, 331)), order=dtype == "float32", descending=True)


def test_lines_that_quicksort_fears(ours: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """All alike but for one, in order, the other way round, and up and down."""
    monkeypatch.setattr(sorting, "_SHORTEST", 300)
    line = np.arange(331, dtype=np.float32)
    check(ours, "rows", np.stack([(line == 200) + line * 0, line, -line, -abs(line - 160)]))


@pytest.mark.parametrize("moves", ["none", "few", "many"])
def test_keys_that_crowd_together(ours: Device, moves: str) -> None:
    """The highest bits that differ tell one element from the others, and these not apart."""
    a = np.arange(1, 203)
    if moves == "few":
        a[::10], a[1::10] = a[1::10], a[::10].copy()
    elif moves == "many":
        RNG.shuffle(a)
    a[77] = 2**60
    check(ours, "rows", a)


@pytest.mark.parametrize("dtype", ["int16", "float16", "float32"])
def test_tiles_the_other_way_round(simulated: Device, dtype: str) -> None:
    check(simulated, "tiles", numbers(dtype, (TILE.size + 6,)), descending=True)


def test_tiles_that_do_not_wait(simulated: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_sorting, "_can_wait", lambda x: False)
    check(simulated, "tiles", numbers("uint16", (2, 133)))


def test_counts_of_64_bits(simulated: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_sorting, "_LONGEST_IN_32_BITS", 0)
    monkeypatch.setattr(sweep_sorting, "place_for", lambda length: dtypes.int64)
    check(simulated, "tiles", numbers("int8", (2, 133)))


@pytest.mark.parametrize("length", [1, 63, 64, 65, 192, 200])
def test_lengths_about_those_of_tiles(simulated: Device, length: int) -> None:
    check(simulated, "tiles", numbers("uint8", (length,)))


@pytest.mark.parametrize("a", [np.full(150, 7), np.arange(150) - 75, 75 - np.arange(150)])
def test_tiles_of_numbers_in_some_order(simulated: Device, a: np.ndarray[Any, Any]) -> None:
    check(simulated, "tiles", a.astype(np.int8))


def test_a_digit_that_all_of_a_row_have(simulated: Device) -> None:
    """Its pass copies that row, and orders the other."""
    a = RNG.integers(0, 256, (2, 133)).astype(np.uint16)
    a[1] *= 256
    a[0] += 0xFF00
    check(simulated, "tiles", a, descending=False)


def test_the_ways_that_lengths_choose(simulated: Device) -> None:
    """Rows that are merged, that a workgroup holds, and longer ones."""
    import portable.array as xp

    for shape in ((3, 16), (3, 17), (4001,)):
        a = numbers("uint8", shape)
        found = to_numpy(xp.argsort(simulated.from_numpy(a)))
        np.testing.assert_array_equal(found, np.argsort(a, axis=-1, kind="stable"))


@pytest.mark.parametrize("local", [8, 16, 32, 48, 227])
@pytest.mark.parametrize("kind", [np.uint8, np.float32, np.complex128])
def test_tiles_fit_in_local_memory(simulated: Device, local: int, kind: type) -> None:
    x = simulated.from_numpy(np.zeros(5000, kind))
    can = replace(simulated.capabilities, local_memory=local * 1024)
    tile = sweep_sorting.tile_for(x, can)
    assert local < 32 or tile.each > 0
    assert tile.size * (x.dtype.itemsize + 4) <= local * 1024


def test_views(ours: Device) -> None:
    import portable.array as xp

    a = RNG.integers(0, 9, (20, 4, 42)).astype(np.float32)
    x = ours.from_numpy(a)
    for axis in (0, -1):
        found = to_numpy(xp.sort(x[::-1, ::2, ::3], axis=axis))
        np.testing.assert_array_equal(found, np.sort(a[::-1, ::2, ::3], axis=axis))
    assert xp.argsort(x[:, :0]).dtype is dtypes.int64
