"""Products with few columns, and of small matrices, by work-items that are alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import portable
from portable import linalg
from portable.backend import Device
from portable.backend.profiles import load
from portable.dtypes import float32, float64, int32
from portable.linalg.products.slim import slim_for

RNG = np.random.default_rng(0)
SHAPES = [
    ((40, 8, 8), (40, 8, 8)),
    ((7, 33, 33), (7, 33, 33)),
    ((3, 1, 5, 9), (4, 9, 7)),
    ((123, 50), (50, 3)),
    ((1, 17), (17, 2)),
    ((10, 20000), (20000, 10)),
    ((5, 1), (1, 16)),
    ((48, 48), (48, 48)),
    ((2, 3, 3), (3, 1001)),
    ((8, 40), (40, 130)),
]


def floats(shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize(("left", "right"), SHAPES, ids=str)
def test_products(device: Device, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = floats(left), floats(right)
    found = portable.to_numpy(linalg.gemm(device.from_numpy(a), device.from_numpy(b)))
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    bound = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    assert found.shape == wanted.shape
    assert np.all(np.abs(found - wanted) <= 4 * a.shape[-1] * 2.0**-24 * bound)


def test_what_is_done_to_sums(device: Device) -> None:
    a, b, c, bias = floats((9, 20, 12)), floats((12, 6)), floats((9, 20, 6)), floats((6,))
    given = {name: device.from_numpy(x) for name, x in (("c", c), ("bias", bias))}
    found = linalg.gemm(
        device.from_numpy(a), device.from_numpy(b), alpha=2, beta=-1, activation="relu", **given
    )
    wanted = np.maximum(2 * (a @ b) - c + bias, 0)
    np.testing.assert_allclose(portable.to_numpy(found), wanted, rtol=1e-4, atol=1e-4)
    twice = linalg.gemm(device.from_numpy(a), device.from_numpy(b), alpha=2, activation="relu")
    np.testing.assert_allclose(portable.to_numpy(twice), np.maximum(2 * (a @ b), 0), 1e-4, 1e-4)


def test_what_is_done_to_wide_sums(device: Device) -> None:
    a, b, c, bias = floats((5, 20)), floats((20, 301)), floats((5, 301)), floats((301,))
    x, y, z = (device.from_numpy(v) for v in (a, b, c))
    found = linalg.gemm(x, y, c=z, beta=0.5, bias=device.from_numpy(bias), activation="relu")
    np.testing.assert_allclose(
        portable.to_numpy(found), np.maximum(a @ b + c / 2 + bias, 0), 1e-4, 1e-4
    )
    linalg.gemm(x, y, c=z, beta=0.5, out=z)
    np.testing.assert_allclose(portable.to_numpy(z), a @ b + c / 2, 1e-4, 1e-4)


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint32"])
def test_integers(device: Device, dtype: str) -> None:
    ours, limits = device.for_arrays(), np.iinfo(dtype)
    xp = ours.namespace()
    for left, right in (((7, 5, 3), (3, 4)), ((9, 20), (20, 301)), ((4, 9000), (9000, 4))):
        a, b = (
            RNG.integers(limits.min, limits.max, shape, dtype, endpoint=True)
            for shape in (left, right)
        )
        found = portable.to_numpy(xp.matmul(ours.from_numpy(a), ours.from_numpy(b)))
        np.testing.assert_array_equal(found, a @ b)
        found = portable.to_numpy(xp.matmul(ours.from_numpy(a), ours.from_numpy(b[:, 0].copy())))
        np.testing.assert_array_equal(found, a @ b[:, 0])


def test_long_sums_with_a_bias(device: Device) -> None:
    a, b, bias = floats((4, 10000)), floats((10000, 5)), floats((5,))
    found = linalg.gemm(
        device.from_numpy(a), device.from_numpy(b), bias=device.from_numpy(bias), activation="relu"
    )
    np.testing.assert_allclose(
        portable.to_numpy(found), np.maximum(a @ b + bias, 0), rtol=1e-3, atol=1e-3
    )


def test_views_and_results_that_are_given(device: Device) -> None:
    a, b = floats((30, 40)), floats((40, 9))
    x, y = device.from_numpy(a), device.from_numpy(b)
    np.testing.assert_allclose(
        portable.to_numpy(linalg.gemm(x[::2, ::-1], y[:, 1:8])),
        a[::2, ::-1] @ b[:, 1:8],
        1e-4,
        1e-4,
    )
    room = device.from_numpy(np.zeros((30, 20), np.float32))
    linalg.gemm(x, y, out=room[:, ::2][:, :9])
    np.testing.assert_allclose(portable.to_numpy(room)[:, :18:2], a @ b, 1e-4, 1e-4)
    assert not portable.to_numpy(room)[:, 1::2].any()


def test_which_products_are_slim() -> None:
    alone = replace(load("intel-cpu").capabilities, compute_units=2)
    crowd = replace(alone, single_work_items=False)
    small = slim_for(alone, float32, (10_000, 8, 8), 8)
    assert small is not None
    assert small[0].lanes == 8
    assert small[0].many > 1
    assert small[2] >= 8
    long = slim_for(alone, float32, (10, 10), 100_000)
    assert long is not None
    assert long[1] > 1
    assert long[0].split_k
    for kind, shape, k in ((float64, (500, 33, 33), 33), (float32, (2000, 96), 500)):
        found = slim_for(alone, kind, shape, k)
        assert found is not None
        assert found[0].rows * found[0].vectors <= 24
    narrow = replace(alone, vector_bytes=32, vector_registers=16)
    assert slim_for(narrow, float32, (2000, 24), 500) is not None
    assert slim_for(narrow, float32, (2000, 96), 500) is None
    assert slim_for(alone, float32, (2000, 97), 500) is None
    assert slim_for(alone, float32, (512, 512), 512) is None
    assert slim_for(alone, float32, (4, 100_000), 50) is None
    assert slim_for(alone, int32, (8, 8), 8) is not None
    assert slim_for(crowd, float32, (8, 8), 8) is None
