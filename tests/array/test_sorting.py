"""Both ways of sorting against NumPy, on every device whichever of them it uses by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from portable import dtypes, to_numpy
from portable.array import radix_sorting
from portable.array.merge_sorting import merge_sorted
from portable.array.radix_sorting import radix_sorted
from portable.array.recipe import Recipe
from portable.backend import Device

RNG = np.random.default_rng(0)
DTYPES = ["bool", "int8", "uint16", "int32", "uint64", "int64", "float16", "float64", "complex64"]
METHODS = {"merge": merge_sorted, "radix": radix_sorted}


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
        pairs = RNG.choice(special, (*shape, 2)).astype(np.float32)
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
    device: Device, method: str, a: np.ndarray[Any, Any], *, values: bool = True, order: bool = True
) -> None:
    """Sorts in descending order what is unsigned or complex, else in ascending order."""
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
    check(simulated, method, numbers(dtype, (2, 37)))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("wanted", ["values", "order"])
def test_one_of_two(simulated: Device, method: str, wanted: str) -> None:
    wants = {"values": wanted == "values", "order": wanted == "order"}
    check(simulated, method, numbers("uint16", (2, 37)), **wants)


@pytest.mark.parametrize("method", METHODS)
def test_on_the_device(ours: Device, method: str) -> None:
    check(ours, method, numbers("float32", (2, 70)))


def test_sections(ours: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(radix_sorting, "_SHORTEST_SECTION", 32)
    check(ours, "radix", numbers("uint16", (2, 131)), order=False)


def test_views(ours: Device) -> None:
    import portable.array as xp

    a = RNG.integers(0, 9, (40, 6, 70)).astype(np.float32)
    x = ours.from_numpy(a)
    for axis in (0, -1):
        found = to_numpy(xp.sort(x[::-1, ::2, ::3], axis=axis))
        np.testing.assert_array_equal(found, np.sort(a[::-1, ::2, ::3], axis=axis))
    assert xp.argsort(x[:, :0]).dtype is dtypes.int64
