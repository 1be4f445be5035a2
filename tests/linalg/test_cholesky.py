"""The Cholesky factorisation, on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable
from portable.backend import Device
from portable.errors import DTypeError, ShapeError
from portable.linalg import cholesky
from tests.linalg.systems import adjoint, crossed, on, random, ratio
from tests.support.devices import of_today


def definite(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Positive definite matrices, with NaN nowhere."""
    wide = "complex128" if dtype.startswith("complex") else "float64"
    x = random(shape, wide)
    return (x @ adjoint(x) / shape[-1] + np.eye(shape[-1])).astype(dtype)


def check(a: np.ndarray, factor: np.ndarray, upper: bool) -> None:
    """Its product, zeros in the other triangle, and a positive diagonal."""
    assert factor.shape == a.shape
    assert not np.any(np.tril(factor, -1) if upper else np.triu(factor, 1))
    assert np.all(np.diagonal(factor, axis1=-2, axis2=-1).real > 0)
    product = adjoint(factor) @ factor if upper else factor @ adjoint(factor)
    assert ratio(product - a.astype(factor.dtype), a) < 30


@pytest.mark.parametrize("upper", [False, True], ids=["lower", "upper"])
@pytest.mark.parametrize(
    ("shape", "dtype"), crossed([(1, 1), (5, 5), (2, 3, 17, 17), (66, 66)], (5, 5)), ids=str
)
def test_random_matrices(device: Device, shape: tuple[int, ...], dtype: str, upper: bool) -> None:
    a = definite(shape, dtype)
    check(a, on(device, cholesky, a, upper=upper), upper)


@pytest.mark.needs_compiler
@pytest.mark.parametrize(("n", "dtype"), [(517, "float32"), (300, "float64")], ids=str)
def test_larger_matrices(device: Device, n: int, dtype: str) -> None:
    a = definite((n, n), dtype)
    check(a, on(device, cholesky, a), upper=False)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_rows_that_a_sub_group_has(dtype: str) -> None:
    """Of all but the last block, whose strips are as wide as on GPUs."""
    a = definite((130, 130), dtype)
    with portable.use("simulator:h200"):
        check(a, cholesky(a), upper=False)


@pytest.mark.parametrize("upper", [False, True], ids=["lower", "upper"])
def test_the_other_triangle_is_not_read(device: Device, upper: bool) -> None:
    a = definite((19, 19), "float32")
    given = np.where(np.tri(19, k=-1 if upper else 0, dtype=bool) == upper, np.nan, a)
    given = given.astype(np.float32)
    with portable.use(device.name):
        found = device.to_numpy(cholesky(device.from_numpy(given), upper=upper))
    check(a, found, upper)


@pytest.mark.parametrize("scale", [1e-30, 1e30], ids=str)
def test_tiny_and_huge_matrices(device: Device, scale: float) -> None:
    a = (scale * definite((20, 20), "float64")).astype(np.float32)
    check(a, on(device, cholesky, a), upper=False)


def test_graded_matrices(device: Device) -> None:
    """Rows and columns from 1 down to 1e-15: each element as accurate as its place allows."""
    d = np.logspace(0, -15, 30)
    a = (d[:, None] * definite((30, 30), "float64") * d).astype(np.float32)
    factor = on(device, cholesky, a).astype(np.float64)
    sizes = np.sqrt(np.diag(a).astype(np.float64))
    errors = np.abs(factor @ factor.T - a) / np.outer(sizes, sizes)
    assert np.max(errors) < 30 * np.finfo(np.float32).eps


def test_views(device: Device) -> None:
    a = definite((40, 40), "float32")
    with portable.use(device.name):
        given = device.from_numpy(np.repeat(np.repeat(a, 2, 0), 3, 1))[::2, ::3]
        check(a, device.to_numpy(cholesky(given)), upper=False)
        check(a, device.to_numpy(cholesky(given.T)), upper=False)


@pytest.mark.parametrize("shape", [(0, 0), (3, 0, 0), (0, 4, 4)], ids=str)
def test_empty_matrices(device: Device, shape: tuple[int, ...]) -> None:
    assert on(device, cholesky, np.empty(shape, np.float32)).shape == shape


@pytest.mark.parametrize("at", [0, 3, 68], ids=str)
def test_matrices_that_are_not_positive_definite(device: Device, at: int) -> None:
    a = np.stack([definite((70, 70), "float32")] * 2)
    a[1, at, at] = -1
    with pytest.raises(np.linalg.LinAlgError, match=rf"row {at} .*matrix 1 of 2"):
        on(device, cholesky, a)


@pytest.mark.parametrize("value", [np.nan, np.inf], ids=str)
def test_what_is_not_finite_ends(device: Device, value: float) -> None:
    """With an error, as soon as a pivot is none."""
    a = definite((20, 20), "float32")
    a[7, 7] = value
    a[9, 7] = value
    with portable.use(device.name), pytest.raises(np.linalg.LinAlgError, match="not a positive"):
        cholesky(device.from_numpy(a))


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        (np.ones((3, 4), np.float32), ShapeError, "square"),
        (np.ones(3, np.float32), ShapeError, "square"),
        (np.ones((3, 3), np.int32), DTypeError, "int32"),
    ],
    ids=["wide", "vector", "integers"],
)
def test_what_is_refused(device: Device, given: Any, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        on(device, cholesky, given)


@pytest.mark.parametrize("profile", of_today("h200", "intel-cpu"))
def test_as_other_devices_do_it(profile: str) -> None:
    """With races looked for."""
    device = portable.device(f"simulator:{profile}")
    for dtype, n in (("float32", 80), ("complex64", 66)):
        a = definite((n, n), dtype)
        check(a, on(device, cholesky, a), upper=False)
