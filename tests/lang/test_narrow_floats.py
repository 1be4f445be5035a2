"""Floats of 8 and 16 bits that NumPy has from ml_dtypes, beside ml_dtypes itself, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend import Device
from portable.dtypes import dtype

ml_dtypes = pytest.importorskip("ml_dtypes", reason="NumPy lacks these types without it")

KINDS = {"bfloat16": np.uint16, "float8_e4m3fn": np.uint8, "float8_e5m2": np.uint8}


@pt.kernel
def converted(x: kl.Array, y: kl.Array) -> None:
    i = kl.global_id(0)
    if i < y.shape[0]:
        y[i] = x[i]


@pt.kernel
def rounded(x: kl.Array, y: kl.Array, *, KIND: Any) -> None:
    i = kl.global_id(0)
    if i < y.shape[0]:
        y[i] = KIND(x[i])


def all_words(kind: str) -> np.ndarray[Any, Any]:
    words = KINDS[kind]
    every: np.ndarray[Any, Any] = np.arange(2 ** (8 * words().itemsize), dtype=np.uint32)
    return every.astype(words).view(getattr(ml_dtypes, kind))


def narrowed(x: np.ndarray[Any, Any], kind: str) -> np.ndarray[Any, Any]:
    return in_silence(x, getattr(ml_dtypes, kind))


def in_silence(x: np.ndarray[Any, Any], kind: Any) -> np.ndarray[Any, Any]:
    with np.errstate(invalid="ignore", over="ignore"):
        return x.astype(kind)


def between(kind: str, of: str) -> np.ndarray[Any, Any]:
    """Neighbours, the middle between each two of them, and what is next to that."""
    numbers = in_silence(all_words(kind), of)
    ordered = np.unique(numbers[np.isfinite(numbers)])[:: 1 if KINDS[kind] is np.uint8 else 97]
    middle = ordered[:-1] / 2 + ordered[1:] / 2
    near = np.nextafter(middle, np.inf, dtype=of), np.nextafter(middle, -np.inf, dtype=of)
    special = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1e30, -1e30, 464, 465, 61440], of)
    return np.concatenate([numbers, middle, *near, special])


@pytest.fixture(autouse=True)
def _has_these_types(device: Device) -> None:
    if device.backend == "sycl":
        pytest.skip("dpnp lacks these types")


def run(kernel: Any, x: Any, kind: str, device: Device, **constants: Any) -> np.ndarray[Any, Any]:
    y = device.empty(x.shape, dtype(kind))
    kernel[x.size, 64](device.from_numpy(x), y, **constants)
    return device.to_numpy(y)


def same_bits(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> bool:
    words = f"u{expected.dtype.itemsize}"
    return bool(np.array_equal(found.view(words), expected.view(words)))


@pytest.mark.parametrize("kind", KINDS)
def test_every_value_is_loaded_as_what_it_is(kind: str, device: Device) -> None:
    x = all_words(kind)
    expected = in_silence(x, np.float32)
    found = run(converted, x, "float32", device)
    numbers = ~np.isnan(expected)
    assert same_bits(found[numbers], expected[numbers])
    assert np.isnan(found[~numbers]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_every_half_is_stored_as_the_nearest(kind: str, device: Device) -> None:
    halves = np.arange(2**16, dtype=np.uint32).astype(np.uint16).view(np.float16)
    expected = narrowed(halves, kind)
    found = run(converted, halves, kind, device)
    numbers = ~np.isnan(halves)
    assert same_bits(found[numbers], expected[numbers])
    assert np.isnan(found[~numbers].astype(np.float32)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_ties_and_what_is_beside_them_round_once(kind: str, device: Device) -> None:
    x = between(kind, "float32")
    expected = narrowed(x, kind)
    found = run(converted, x, kind, device)
    numbers = ~np.isnan(x)
    assert same_bits(found[numbers], expected[numbers])
    assert np.isnan(found[~numbers].astype(np.float32)).all()


@pytest.mark.needs_float64
@pytest.mark.parametrize("kind", KINDS)
def test_doubles_are_made_singles_first(kind: str, device: Device) -> None:
    x = between(kind, "float64")
    expected = narrowed(x, kind)
    found = run(converted, x, kind, device)
    numbers = ~np.isnan(x)
    assert same_bits(found[numbers], expected[numbers])


@pytest.mark.parametrize("kind", KINDS)
def test_a_cast_rounds_as_a_store_does(kind: str, device: Device) -> None:
    x = between(kind, "float32")
    expected = narrowed(x, kind).astype(np.float32)
    found = run(rounded, x, "float32", device, KIND=dtype(kind))
    numbers = ~np.isnan(expected)
    assert same_bits(found[numbers], expected[numbers])
    assert np.isnan(found[~numbers]).all()
