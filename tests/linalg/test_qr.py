"""QR factorisations and least squares, on every device."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest

import portable
from portable.backend import Device
from portable.errors import DTypeError, ShapeError
from portable.linalg import lstsq, lu_factor, qr
from portable.linalg.factorisations import holding, reflectors
from portable.linalg.factorisations import qr as module
from portable.linalg.products import launches
from portable.linalg.products.model import Product
from portable.linalg.products.tuning import schemes
from portable.sim import checks
from tests.linalg.systems import DTYPES, adjoint, crossed, on, random, ratio, square_matrices
from tests.linalg.test_lu import check_factors
from tests.support.devices import of_today


def check(a: np.ndarray, q: np.ndarray, r: np.ndarray, mode: str = "reduced") -> None:
    """Their product, orthonormal columns, and zeros below the diagonal."""
    m, n = a.shape[-2:]
    k = m if mode == "complete" else min(m, n)
    assert q.shape == (*a.shape[:-1], k)
    assert r.shape == (*a.shape[:-2], k, n)
    assert not np.any(np.tril(r, -1))
    wide = np.complex128 if np.iscomplexobj(q) else np.float64
    difference = (q.astype(wide) @ r - a).astype(q.dtype)
    assert ratio(difference, a) < 30
    one = np.eye(k, dtype=q.dtype)
    assert ratio(adjoint(q) @ q - one, one) < 30


SHAPES = [(1, 1), (7, 7), (30, 18), (18, 30), (2, 3, 20, 17)]


@pytest.mark.parametrize(("shape", "dtype"), crossed(SHAPES, (30, 18)), ids=str)
def test_random_matrices(device: Device, shape: tuple[int, ...], dtype: str) -> None:
    a = random(shape, dtype)
    check(a, *on(device, qr, a))


@pytest.mark.parametrize(("shape", "dtype"), list(zip(SHAPES, DTYPES, strict=True)), ids=str)
def test_complete_factors(device: Device, shape: tuple[int, ...], dtype: str) -> None:
    a = random(shape, dtype)
    q, r = on(device, qr, a, mode="complete")
    check(a, q, r, "complete")


@pytest.mark.parametrize(("shape", "dtype"), list(zip(SHAPES, DTYPES, strict=True)), ids=str)
def test_the_upper_factor_alone(device: Device, shape: tuple[int, ...], dtype: str) -> None:
    a = random(shape, dtype)
    np.testing.assert_array_equal(on(device, qr, a, mode="r"), on(device, qr, a)[1])


@pytest.mark.needs_compiler
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((600, 600), "float32"), ((3000, 40), "float32"), ((300, 260), "float64")],
    ids=str,
)
def test_larger_matrices(device: Device, shape: tuple[int, int], dtype: str) -> None:
    a = random(shape, dtype)
    check(a, *on(device, qr, a))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", list(square_matrices()))
def test_matrices_of_every_kind(device: Device, name: str, dtype: str) -> None:
    a = square_matrices()[name].astype(dtype)
    check(a, *on(device, qr, a))


@pytest.mark.parametrize("name", ["zeros", "equal columns", "a zero column", "Lauchli"])
def test_matrices_of_lower_rank(device: Device, name: str) -> None:
    a = random((24, 20), "float32")
    if name == "zeros":
        a[:] = 0
    elif name == "equal columns":
        a[:, 1:] = a[:, :1]
    elif name == "a zero column":
        a[:, 5] = 0
        a[7] = 0
    else:
        a[:] = 0
        a[0] = 1
        a[1:21] = 1e-8 * np.eye(20)
    check(a, *on(device, qr, a))


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 4, 0), (0, 4, 3)], ids=str)
@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
def test_empty_matrices(device: Device, shape: tuple[int, ...], mode: Any) -> None:
    a = np.empty(shape, np.float32)
    found, expected = on(device, qr, a, mode=mode), np.linalg.qr(a, mode=mode)
    if mode == "r":
        found, expected = (found,), (expected,)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y)


def test_what_is_not_finite_ends(device: Device) -> None:
    for value in (np.nan, np.inf):
        a = random((20, 18), "float32")
        a[5, 6] = value
        with portable.use(device.name):
            q, _ = qr(device.from_numpy(a))
            assert not np.all(np.isfinite(device.to_numpy(q)))


@pytest.mark.parametrize(
    ("shapes", "dtype"),
    crossed(
        [((1, 1), (1,)), ((30, 18), (30,)), ((30, 18), (30, 3)), ((18, 30), (18, 2)),
         ((2, 20, 5), (20, 4)), ((2, 1, 9, 4), (3, 9, 2)), ((5, 8), (5,))],
        ((30, 18), (30, 3)),
    ),
    ids=str,
)  # fmt: skip
def test_least_squares(device: Device, shapes: tuple[tuple[int, ...], ...], dtype: str) -> None:
    a, b = shapes
    matrix, sides = random(a, dtype), random(b, dtype, 1)
    single = matrix.astype("float32" if dtype == "float16" else dtype)
    x, residuals, rank = on(device, lstsq, matrix, sides)
    assert np.all(rank == min(matrix.shape[-2:]))
    wide = np.complex128 if np.iscomplexobj(single) else np.float64
    right = sides.astype(wide)[:, None] if len(b) == 1 else sides.astype(wide)
    expected = np.linalg.pinv(matrix.astype(wide)) @ right
    room = 2e-3 if single.real.dtype == np.float32 else 1e-10
    column = x[..., None] if len(b) == 1 else x
    np.testing.assert_allclose(column, expected, rtol=room, atol=room)
    left = np.sum(np.abs(matrix.astype(wide) @ expected - right) ** 2, axis=-2)
    np.testing.assert_allclose(residuals[..., None] if len(b) == 1 else residuals, left, atol=room)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_least_squares_of_lower_rank(device: Device, dtype: str) -> None:
    """By singular values, of a whole batch."""
    a, b = random((2, 20, 5), dtype), random((20, 1), dtype)
    a[1, :, 3] = a[1, :, 1]
    for given in (a, np.ascontiguousarray(a.swapaxes(1, 2))):
        right = b[: given.shape[1]]
        x, residuals, rank, values = on(device, lstsq, given, right)
        np.testing.assert_array_equal(rank, [5, 4])
        np.testing.assert_allclose(values, np.linalg.svd(given)[1], atol=1e-4)
        expected = np.linalg.pinv(given, rcond=1e-5) @ right
        np.testing.assert_allclose(x, expected, rtol=1e-3, atol=1e-3)
        left = np.sum(np.abs(given @ expected - right) ** 2, axis=-2)
        np.testing.assert_allclose(residuals, left, atol=1e-3)


def test_least_squares_with_a_bound_of_its_own(device: Device) -> None:
    """Under which singular values count as zero, as NumPy's do."""
    a, b = random((12, 4), "float32"), random((12,), "float32")
    a[:, 3] = a[:, 0] + 1e-3 * a[:, 1]
    for bound in (1e-1, 1e-6):
        x, _, rank, values = on(device, lstsq, a, b, rcond=bound)
        expected = np.linalg.lstsq(a, b, rcond=bound)
        assert rank == expected[2]
        np.testing.assert_allclose(values, expected[3], atol=1e-4)
        np.testing.assert_allclose(x, expected[0], rtol=1e-2, atol=1e-2 if bound > 1e-2 else 1)


@pytest.mark.parametrize(
    ("a", "b"), [((4, 0), (4, 2)), ((0, 3), (0, 2)), ((0, 4, 3), (4, 2)), ((4, 3), (4, 0))], ids=str
)
def test_least_squares_of_nothing(device: Device, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, residuals, _ = on(device, lstsq, np.ones(a, np.float32), np.ones(b, np.float32))
    assert x.shape == (*a[:-2], a[-1], b[-1])
    assert residuals.shape == (*a[:-2], b[-1])
    assert np.all(x == 0)


def test_what_is_refused(device: Device) -> None:
    a: Any = np.ones((3, 2), np.float32)
    with pytest.raises(ValueError, match="mode='raw'"):
        on(device, qr, a, mode="raw")
    with pytest.raises(ShapeError, match="matrices"):
        on(device, qr, a[0])
    with pytest.raises(DTypeError, match="int32"):
        on(device, qr, a.astype(np.int32))
    with pytest.raises(ShapeError, match="right-hand sides"):
        on(device, lstsq, a, a[:2])


@pytest.mark.parametrize("profile", of_today("h200", "intel-cpu"))
def test_as_other_devices_do_it(profile: str) -> None:
    """With races looked for."""
    device = portable.device(f"simulator:{profile}")
    for dtype, shape in (("float32", (50, 40)), ("complex64", (20, 20))):
        a = random(shape, dtype)
        check(a, *on(device, qr, a))
    nothing = np.ones((0, 4, 3), np.float32)
    assert on(device, lstsq, nothing, nothing[..., :2])[0].shape == (0, 3, 2)


@pytest.mark.parametrize(
    ("shape", "dtype", "resident", "workers"),
    [
        ((2, 130, 14), "float32", 6, 2),
        ((100, 14), "complex64", 3, 48),
        ((200, 5), "complex128", 5, 2),  # slices of single columns
    ],
)
def test_panels_of_several_workgroups(
    shape: tuple[int, ...],
    dtype: str,
    resident: int,
    workers: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a GPU shares two panels among three workgroups, races and endless waits looked for."""
    monkeypatch.setattr(holding, "_WORKERS", workers)
    monkeypatch.setattr(holding, "_ITEMS", 32)
    monkeypatch.setattr(holding, "_ALONE_BYTES", 0)
    device = portable.device("simulator:h200")
    a = random(shape, dtype)
    with checks(resident=resident):
        check(a, *on(device, qr, a))
        lu, pivots = on(device, lu_factor, a)
    for index in np.ndindex(*shape[:-2]):
        check_factors(a[index], lu[index], pivots[index])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("condition", [1e2, 1e5, 1e14, np.inf])
def test_tall_matrices(condition: float, dtype: str) -> None:
    """By Gram matrices, and by reflectors where columns depend on each other."""
    u, v = np.linalg.qr(random((9000, 30), "float64"))[0], np.linalg.qr(random((30, 30), "f8"))[0]
    sizes = np.logspace(0, -np.log10(min(condition, 1e16)), 30)
    sizes[-1] = 0 if condition == np.inf else sizes[-1]
    a = ((u * sizes) @ v).astype(dtype)
    q, r = on(portable.device("cpu"), qr, a)
    check(a, q, r)
    with mock.patch.object(module, "is_tall", return_value=False):
        check(a, *on(portable.device("cpu"), qr, a))


@pytest.mark.parametrize(
    ("shape", "condition"), [((2, 130, 10), 1), ((140, 7), 1e5), ((140, 7), np.inf)], ids=str
)
def test_tall_matrices_by_rows(
    shape: tuple[int, ...], condition: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In shares of tiles, as a GPU has them, with races looked for."""
    monkeypatch.setattr(module, "_LEAST", 1)
    monkeypatch.setattr(module, "_EACH", 2)
    n = shape[-1]
    sizes = np.logspace(0, -np.log10(min(condition, 1e5)), n)
    sizes[-1] = 0 if condition == np.inf else sizes[-1]
    right = np.linalg.qr(random((n, n), "float64"))[0]
    a = ((np.linalg.qr(random(shape, "float64"))[0] * sizes) @ right).astype("float32")
    device = portable.device("simulator:h200")
    check(a, *on(device, qr, a))


def test_products_beside_panels_leave_them_their_units(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = set()

    def noted(device: Device, kind: Any, algorithm: str, product: Product, *more: Any) -> Any:
        taken.add(product.taken)
        return schemes(device, kind, algorithm, product, *more)

    monkeypatch.setattr(launches, "schemes", noted)
    monkeypatch.setattr(reflectors, "WIDE", 16)
    a = random((53, 53), "float32")
    check(a, *on(portable.device("simulator:h200"), qr, a))
    assert taken == {0, 1}
