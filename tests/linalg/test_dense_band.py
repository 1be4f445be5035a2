"""Dense matrices reduced to banded form, on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import portable
from portable.backend import Device
from portable.dtypes import dtype as dtype_of
from portable.errors import DTypeError, ShapeError
from portable.linalg import dense_to_band
from portable.linalg.base.magnitude import largest_magnitude
from portable.linalg.dense.reduction import SCALED_TO, reduced
from portable.linalg.dense.shapes import DenseShape
from portable.sim import checks
from tests.linalg.matrices import TOLERANCE, dense, matrices

DTYPES = ["float16", "float32", "float64"]


def random_matrix(m: int, n: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(100 * m + n).standard_normal((m, n)).astype(dtype)


def check(a: np.ndarray, ab: np.ndarray) -> None:
    """The same singular values, and zeros where no element is."""
    assert ab.dtype == dtype_of(a.dtype).register.numpy
    assert ab.shape[1] == min(a.shape)
    outside = np.add.outer(np.arange(ab.shape[0]), np.arange(ab.shape[1])) < ab.shape[0] - 1
    assert not np.any(ab[outside])
    reference = scipy.linalg.svdvals(a.astype(np.float64))
    found = scipy.linalg.svdvals(dense(ab.astype(np.float64)))
    room = TOLERANCE[dtype_of(a.dtype).register.name]
    assert np.max(np.abs(found - reference)) <= room * np.max(reference)


def on(device: Device, a: np.ndarray, bandwidth: int, **options: Any) -> np.ndarray:
    with portable.use(device.name):
        given = device.from_numpy(a)
        ab = dense_to_band(given, bandwidth, **options)
        np.testing.assert_array_equal(device.to_numpy(given), a)
    assert device.owns(ab)
    return device.to_numpy(ab)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("m", "n", "bandwidth"),
    [(1, 1, 1), (1, 5, 2), (4, 2, 1), (9, 9, 4), (12, 10, 3), (11, 17, 16), (23, 8, 5)],
    ids=str,
)
def test_random_matrices(device: Device, m: int, n: int, bandwidth: int, dtype: str) -> None:
    """Of each bandwidth where nothing is compiled; elsewhere each would take kernels of its own."""
    if not device.interprets:
        bandwidth = 4
    a = random_matrix(m, n, dtype)
    check(a, on(device, a, bandwidth))


@pytest.mark.needs_compiler
@pytest.mark.parametrize(
    ("m", "n", "bandwidth"), [(300, 300, 32), (97, 500, 20), (260, 257, 100)], ids=str
)
def test_larger_matrices(device: Device, m: int, n: int, bandwidth: int) -> None:
    a = random_matrix(m, n, "float32")
    check(a, on(device, a, bandwidth))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", list(matrices()))
def test_matrices_of_every_kind(device: Device, name: str, dtype: str) -> None:
    a = matrices()[name].astype(dtype)
    check(a, on(device, a, 4))


LAYOUTS = {
    "vectors": DenseShape(8, 2, 4, 1, (1, 1), 12, 1, 0, True),
    "vectors, a launch a level": DenseShape(8, 2, 4, 1, (1, 1), 12, 1, 0, False),
    "items": DenseShape(8, 2, 1, 2, (4, 4), 12, 32, 4, True),
    "items, a launch a level": DenseShape(8, 2, 1, 4, (16, 2), 12, 32, 4, False),
    "sub-groups": DenseShape(8, 4, 1, 4, (0, 2), 12, 32, 4, True),
}


def test_the_layout_of_other_devices(device: Device) -> None:
    name = "items" if device.capabilities.kind == "cpu" else "vectors"
    if device.capabilities.memory_orders != "acq_rel":
        pytest.skip(f"{device.name} lacks ordered atomics")
    if device.capabilities.vendor == "pocl":
        pytest.skip("PoCL 3.0 computes work-items side by side wrongly here; it is given vectors")
    a = random_matrix(45, 37, "float32")
    check(a, _laid_out(device, a, 8, LAYOUTS[name]))


@pytest.mark.parametrize("name", [name for name in LAYOUTS if "launch" in name])
def test_a_launch_a_level(name: str) -> None:
    a = random_matrix(45, 37, "float32")
    check(a, _laid_out(portable.device("simulator"), a, 8, LAYOUTS[name]))


def _across_sub_groups(device: Device, shape: DenseShape) -> DenseShape:
    size = device.capabilities.sub_group_size
    if size == 1 or shape.height % size:
        pytest.skip(f"{device.name} has sub-groups of {size}")
    return DenseShape(8, 4, 1, 4, (size, 2), 12, 32, 4, True)


def _laid_out(device: Device, a: np.ndarray, bandwidth: int, shape: DenseShape) -> np.ndarray:
    with portable.use(device.name):
        given = device.from_numpy(a)
        largest = largest_magnitude(device, given)
        return device.to_numpy(reduced(device, given, largest, bandwidth, shape))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["vectors", "items", "sub-groups"])
def test_trees_are_free_of_races_in_any_order(name: str, seed: int) -> None:
    device = portable.device("simulator")
    shape = LAYOUTS[name]
    if shape.items[0] == 0:
        shape = _across_sub_groups(device, shape)
    a = random_matrix(33, 25, "float32")
    with checks(seed=seed, resident=3):
        check(a, _laid_out(device, a, 8, shape))


def test_progress_ends_at_one(device: Device) -> None:
    told: list[float] = []
    a = device.from_numpy(random_matrix(40, 40, "float32"))
    with portable.use(device.name):
        largest = largest_magnitude(device, a)
        shape = DenseShape(8, 2, 4, 1, (1, 1), 12, 1, 0, False)
        reduced(device, a, largest, 8, shape, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1


def test_left_scaled_the_largest_element_is_a_known_power_of_two() -> None:
    device = portable.device("simulator")
    a = np.diag(np.array([3.0, 5.0, 4.0], np.float32)) * np.float32(1e-30)
    shape = DenseShape(4, 2, 4, 1, (1, 1), 8, 1, 0, True)
    with portable.use("simulator"):
        scales = device.empty((2,), portable.float32)
        ab = reduced(device, a, largest_magnitude(device, a), 1, shape, scales=scales)
    assert 2.0**SCALED_TO <= np.max(np.abs(ab)) < 2.0 ** (SCALED_TO + 1)
    assert scales[0] == np.max(np.abs(ab))
    assert np.linalg.svd(np.diag(ab[1]) + np.diag(ab[0, 1:], 1))[1][0] <= scales[1]


@pytest.mark.needs_processor
def test_any_strides() -> None:
    a = random_matrix(40, 30, "float64")
    check(a, dense_to_band(np.asfortranarray(a), 4))
    check(a[::-2, 1::3], dense_to_band(a[::-2, 1::3], 4))


def test_nothing(device: Device) -> None:
    assert on(device, np.zeros((0, 4), np.float32), 3).shape == (4, 0)


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_refuses_what_is_not_finite(device: Device, bad: float) -> None:
    a = random_matrix(9, 7, "float32")
    a[8, 3] = bad
    with pytest.raises(ValueError, match="NaN" if np.isnan(bad) else "infinity"):
        on(device, a, 3)


@pytest.mark.needs_processor
def test_refuses_other_shapes_and_dtypes() -> None:
    with pytest.raises(ShapeError, match=r"\(5,\)"):
        dense_to_band(np.ones(5, np.float32), 2)
    with pytest.raises(ValueError, match="bandwidth=0"):
        dense_to_band(np.ones((5, 5), np.float32), 0)
    with pytest.raises(TypeError, match=r"bandwidth=2\.5"):
        dense_to_band(np.ones((5, 5), np.float32), 2.5)  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match="int32"):
        dense_to_band(np.ones((5, 5), np.int32), 2)
