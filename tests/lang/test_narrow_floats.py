"""Floats of 8 and 16 bits that NumPy has from ml_dtypes, beside ml_dtypes itself, bit for bit.

Doubles beside rounding of their own, since ml_dtypes makes singles of them first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend import Device
from portable.dtypes import dtype

ml_dtypes = pytest.importorskip("ml_dtypes", reason="NumPy lacks these types without it")

PRECISE = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
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


@pt.kernel(native_half=True)
def native(x: kl.Array, y: kl.Array) -> None:
    i = kl.global_id(0)
    if i < y.shape[0]:
        y[i] = x[i]


@pt.kernel
def imaginary(x: kl.Array, y: kl.Array) -> None:
    i = kl.global_id(0) * 4
    for j in range(i, i + 4):
        y[j] = x[j].imag


@pt.kernel
def four_together(x: kl.Array, y: kl.Array) -> None:
    i = kl.global_id(0) * 4
    kl.vstore(y, i, kl.vload(x, i, lanes=4))


@dataclass(frozen=True)
class Pair:
    first: Any
    second: Any


@pt.kernel
def in_a_struct(x: kl.Array, y: kl.Array) -> None:
    i = kl.global_id(0) * 4
    pairs = kl.private((4,), Pair(kl.f32, y.dtype))
    for j in range(4):
        pairs[j] = Pair(0.0, x[i + j])
    for j in range(4):
        y[i + j] = pairs[j].second


@pt.kernel
def moved(x: kl.Array, y: kl.Array) -> None:
    matrix = kl.matrix((16, 16), kl.f64, scope="workgroup")
    matrix.load(x[0:16, 0:16])
    matrix.store(y[0:16, 0:16])


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


@pytest.mark.parametrize("kind", KINDS)
def test_a_cast_rounds_as_a_store_does(kind: str, device: Device) -> None:
    x = between(kind, "float32")
    expected = narrowed(x, kind).astype(np.float32)
    found = run(rounded, x, "float32", device, KIND=dtype(kind))
    numbers = ~np.isnan(expected)
    assert same_bits(found[numbers], expected[numbers])
    assert np.isnan(found[~numbers]).all()


# -- doubles --------------------------------------------------------------------------------------


def number_type(kind: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, kind, kind))


def rounded_once(x: np.ndarray[Any, Any], kind: str) -> np.ndarray[Any, Any]:
    """Doubles to the nearest multiple of what the last bit is worth, ties to even."""
    info, finite = ml_dtypes.finfo(number_type(kind)), np.isfinite(x)
    exponents = np.frexp(np.where(finite, x, 0))[1] - 1
    worth = np.ldexp(1.0, np.maximum(exponents, info.minexp) - info.nmant)
    nearest = np.where(finite, np.rint(x / worth) * worth, x)
    return in_silence(in_silence(nearest, np.float32), number_type(kind))


def near_ties(kind: str, count: int = 100_000) -> np.ndarray[Any, Any]:
    """Doubles around the middle between neighbours, and what is special."""
    rng, info = np.random.default_rng(0), ml_dtypes.finfo(number_type(kind))
    magnitudes = np.ldexp(
        1 + (rng.integers(0, 2**info.nmant, count) + 0.5) / 2**info.nmant,
        rng.integers(info.minexp - info.nmant - 2, info.maxexp + 2, count),
    )
    subnormal = magnitudes < float(info.tiny)
    tick = float(info.smallest_subnormal)
    magnitudes[subnormal] = (np.floor(magnitudes[subnormal] / tick) + 0.5) * tick
    beside = rng.choice([-1, 0, 1], count) * 2.0 ** -rng.integers(12, 53, count)
    special = [np.nan, np.inf, 0, 1e300, 5e-324, 2.0**-134, np.nextafter(2.0**-134, 1), 65519.999]
    x = np.concatenate([magnitudes * (1 + beside), special])
    return x * rng.choice([-1, 1], x.size)


def same_numbers(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> bool:
    numbers = ~np.isnan(in_silence(expected, np.float64))
    rest = in_silence(found[~numbers], np.float64)
    return same_bits(found[numbers], expected[numbers]) and bool(np.isnan(rest).all())


@pytest.mark.parametrize("kind", PRECISE)
def test_singles_first_would_be_wrong(kind: str) -> None:
    x = near_ties(kind)
    twice = in_silence(in_silence(x, np.float32), number_type(kind))
    assert not same_numbers(twice, rounded_once(x, kind))
    if kind == "float16":
        assert same_numbers(in_silence(x, np.float16), rounded_once(x, kind))


@pytest.mark.needs_float64
@pytest.mark.parametrize("kind", PRECISE)
def test_doubles_round_once(kind: str, device: Device) -> None:
    x = near_ties(kind)
    assert same_numbers(run(converted, x, kind, device), rounded_once(x, kind))


@pytest.mark.needs_float64
@pytest.mark.parametrize("kind", PRECISE)
def test_casts_of_doubles_round_once(kind: str, device: Device) -> None:
    x = near_ties(kind)
    expected = in_silence(rounded_once(x, kind), np.float32)
    assert same_numbers(run(rounded, x, "float32", device, KIND=dtype(kind)), expected)


@pytest.mark.needs_float64
@pytest.mark.parametrize("kind", PRECISE)
def test_parts_and_vectors_of_doubles_round_once(kind: str, device: Device) -> None:
    x = near_ties(kind, 992)
    numbers = {imaginary: x.view(np.complex128), four_together: x, in_a_struct: x}
    for kernel, source in numbers.items():
        y = device.empty(source.shape, dtype(kind))
        kernel[source.size // 4, 1](device.from_numpy(source), y)
        expected = rounded_once(source.imag if kernel is imaginary else source, kind)
        assert same_numbers(device.to_numpy(y), expected)


@pytest.mark.needs_float64
@pytest.mark.needs_native_half
def test_doubles_round_once_to_halves_in_registers(device: Device) -> None:
    x = near_ties("float16")
    assert same_numbers(run(native, x, "float16", device), rounded_once(x, "float16"))


@pytest.mark.needs_float64
@pytest.mark.parametrize("kind", PRECISE)
def test_matrices_of_doubles_round_once(kind: str, device: Device) -> None:
    x = near_ties(kind, 248).reshape(16, 16)
    y = device.empty(x.shape, dtype(kind))
    moved[1, 16](device.from_numpy(x), y)
    assert same_numbers(device.to_numpy(y), rounded_once(x, kind))
