"""Singular values of dense matrices, on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable
from portable.backend import Device
from portable.dtypes import dtype as dtype_of
from portable.errors import DTypeError, ShapeError
from portable.linalg import svdvals
from portable.linalg.dense.shapes import tuned
from portable.linalg.singular_values.svdvals import Asked, in_stages
from portable.sim import checks
from portable.tune.space import Parameters
from tests.linalg.matrices import TOLERANCE, matrices

DTYPES = ["float16", "float32", "float64"]
SMALL = {"BANDWIDTH": 8, "PANEL": 8, "FAN": 2, "COLUMNS": 2, "STRIP": 16, "WORKGROUP": 32}


def random_matrices(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def check(a: np.ndarray, found: np.ndarray, bandwidth: int = 8) -> None:
    assert found.dtype == dtype_of(a.dtype).register.numpy
    reference = np.linalg.svd(a.astype(np.float64), compute_uv=False)
    assert found.shape == reference.shape
    assert np.all(np.diff(found) <= 0)
    room = TOLERANCE[dtype_of(a.dtype).register.name] * max(1, 8 / bandwidth)
    largest = np.max(reference, axis=-1, keepdims=True, initial=0)
    assert np.all(np.abs(found - reference) <= room * largest)


def on(device: Device, a: np.ndarray, **options: Any) -> np.ndarray:
    with portable.use(device.name):
        given = device.from_numpy(a)
        found = svdvals(given, **options)
        np.testing.assert_array_equal(device.to_numpy(given), a)
    assert device.owns(found)
    return device.to_numpy(found)


def staged(device: Device, a: np.ndarray, choice: Parameters = SMALL, **options: Any) -> np.ndarray:
    """By the three stages, however small the matrix is."""
    with portable.use(device.name):
        values = device.empty((1, min(a.shape)), dtype_of(a.dtype).register)
        in_stages(Asked(device, device.from_numpy(a), values, **options), choice)
        return device.to_numpy(values)[0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (1, 6), (9, 4), (5, 8), (3, 4, 5)], ids=str)
def test_small_matrices(device: Device, shape: tuple[int, ...], dtype: str) -> None:
    a = random_matrices(shape, dtype)
    check(a, on(device, a))


@pytest.mark.needs_compiler
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(32, 32), (300, 257), (40, 150), (2, 1, 35, 45)], ids=str)
def test_larger_matrices(device: Device, shape: tuple[int, ...], dtype: str) -> None:
    a = random_matrices(shape, dtype)
    check(a, on(device, a))


@pytest.mark.needs_compiler
def test_more_matrices_than_are_worked_on_at_a_time(device: Device) -> None:
    """On processors a few for each core are; the rest is shared out evenly."""
    a = random_matrices((4 * min(device.capabilities.compute_units, 16) + 1, 36, 33), "float32")
    check(a, on(device, a))


@pytest.mark.needs_compiler
def test_the_stages_as_tuned(device: Device) -> None:
    a = random_matrices((300, 257), "float32")
    choice = tuned(portable.float32, 257, device.capabilities)[0]
    check(a, staged(device, a, choice), choice["BANDWIDTH"])


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 1), (12, 19), (35, 9)], ids=str)
def test_the_stages_alone(device: Device, shape: tuple[int, int]) -> None:
    a = random_matrices(shape, "float32")
    check(a, staged(device, a))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", list(matrices(9)))
def test_matrices_of_every_kind(device: Device, name: str, dtype: str) -> None:
    a = matrices(9)[name].astype(dtype)
    check(a, on(device, a))
    if dtype == "float32":
        check(a, staged(device, a))


@pytest.mark.needs_float64
@pytest.mark.parametrize("scale", [2.0**-1000, 2.0**980])
def test_neither_squares_nor_sums_overflow_or_vanish(device: Device, scale: float) -> None:
    a = scale * random_matrices((11, 11), "float64")
    for found in (on(device, a), staged(device, a)):
        check(a / scale, found / scale)


def test_half_precision_near_its_limits(device: Device) -> None:
    a = np.full((18, 18), 60000, np.float16)
    found = staged(device, a)
    np.testing.assert_allclose(found[0], 18.0 * 60000, rtol=1e-3)
    assert np.max(found[1:]) <= 5e-3 * found[0]


@pytest.mark.parametrize("seed", range(2))
def test_jacobi_is_free_of_races_in_any_order(seed: int) -> None:
    a = random_matrices((3, 7, 6), "float32")
    with checks(seed=seed, resident=2):
        check(a, on(portable.device("simulator"), a))


def test_progress_goes_through_the_stages(device: Device) -> None:
    told: list[tuple[str, float]] = []
    a = random_matrices((20, 20), "float32")
    check(a, staged(device, a, progress=lambda stage, done: told.append((stage, done))))
    assert [stage for stage, done in told if done == 1] == ["band", "bidiagonal", "values"]


@pytest.mark.parametrize("shape", [(0, 5), (4, 0), (0, 3, 3), (2, 3, 0)], ids=str)
def test_nothing(device: Device, shape: tuple[int, ...]) -> None:
    found = on(device, np.zeros(shape, np.float32))
    assert found.shape == (*shape[:-2], min(shape[-2:]))


@pytest.mark.parametrize("shape", [(5, 4), (40, 36), (2, 3, 3), (2, 36, 33)], ids=str)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_refuses_what_is_not_finite(device: Device, bad: float, shape: tuple[int, ...]) -> None:
    if device.interprets and max(shape) > 30:
        pytest.skip(f"{device.name} is slow")
    a = random_matrices(shape, "float32")
    a[(*(x - 1 for x in shape),)] = bad
    with pytest.raises(ValueError, match="NaN" if np.isnan(bad) else "infinity"):
        on(device, a)


@pytest.mark.needs_processor
def test_any_strides() -> None:
    a = random_matrices((9, 7), "float64")
    check(a, svdvals(np.asfortranarray(a)))
    check(a[::-2, 1::3], svdvals(a[::-2, 1::3]))
    batch = random_matrices((6, 4, 5), "float64")
    check(batch.transpose(2, 0, 1), svdvals(batch.transpose(2, 0, 1)))


@pytest.mark.needs_processor
def test_refuses_other_shapes_and_dtypes() -> None:
    with pytest.raises(ShapeError, match=r"\(5,\)"):
        svdvals(np.ones(5, np.float32))
    with pytest.raises(DTypeError, match="int32"):
        svdvals(np.ones((5, 5), np.int32))
