"""LU factorisations, systems, inverses and determinants, on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import portable
from portable.backend import Device
from portable.errors import DTypeError, ShapeError
from portable.linalg import det, inv, lu_factor, lu_solve, slogdet, solve, solve_triangular
from portable.linalg.factorisations import elimination, holding
from tests.linalg.systems import DTYPES, adjoint, crossed, on, random, ratio, square_matrices
from tests.support.devices import of_today


def check_factors(a: np.ndarray, lu: np.ndarray, pivots: np.ndarray) -> None:
    """Their product, no factor of L above 1, and LAPACK's kind of pivots."""
    m, n = a.shape
    least = min(m, n)
    lower = np.tril(lu[:, :least], -1) + np.eye(m, least, dtype=lu.dtype)
    sizes = np.abs(lower.real) + np.abs(lower.imag) if np.iscomplexobj(lu) else np.abs(lower)
    assert np.max(sizes, initial=0) <= (2 if np.iscomplexobj(lu) else 1)
    order = np.arange(m)
    for i, pivot in enumerate(pivots):
        assert i <= pivot < m
        order[[i, pivot]] = order[[pivot, i]]
    difference = lower @ np.triu(lu[:least]) - a[order].astype(lu.dtype)
    assert ratio(difference, a) < 30


@pytest.mark.parametrize(
    ("shape", "dtype"),
    crossed([(1, 1), (1, 6), (6, 1), (17, 17), (30, 20), (20, 30)], (30, 20)),
    ids=str,
)
def test_factors(device: Device, shape: tuple[int, ...], dtype: str) -> None:
    a = random(shape, dtype)
    check_factors(a, *on(device, lu_factor, a))


def test_factors_through_memory(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """As columns that registers have no room for are eliminated."""
    for name in ("_ALONE_BYTES", "_BYTES"):
        monkeypatch.setattr(holding, name, 0)
    a = random((45, 40), "float32")
    check_factors(a, *on(device, lu_factor, a))


@pytest.mark.needs_compiler
def test_systems_that_come_again(device: Device) -> None:
    """Launches are recorded at the second call, and repeated for others' numbers at later ones."""
    for seed in range(8):
        dtype = "complex64" if seed % 2 else "float32"
        a, b = random((40, 40), dtype, seed), random((40, 3), dtype, seed + 9)
        assert ratio(a @ on(device, solve, a, b) - b, a, b) < 300


def test_factors_of_a_batch(device: Device) -> None:
    a = random((2, 3, 20, 18), "float32")
    lu, pivots = on(device, lu_factor, a)
    for index in np.ndindex(2, 3):
        check_factors(a[index], lu[index], pivots[index])


@pytest.mark.needs_compiler
@pytest.mark.parametrize(("shape", "dtype"), [((517, 517), "float32"), ((300, 260), "float64")])
def test_factors_of_larger_matrices(device: Device, shape: tuple[int, int], dtype: str) -> None:
    a = random(shape, dtype)
    lu, pivots = on(device, lu_factor, a)
    check_factors(a, lu, pivots)
    if shape[0] == shape[1]:
        expected = scipy.linalg.lu_factor(a)[1]
        assert np.mean(pivots == expected) > 0.9


@pytest.mark.parametrize(
    ("shapes", "dtype"),
    crossed(
        [((1, 1), (1,)), ((19, 19), (19,)), ((19, 19), (19, 3)), ((2, 18, 18), (18, 5)),
         ((18, 18), (3, 18, 2)), ((2, 1, 5, 5), (3, 5, 4))],
        ((19, 19), (19, 3)),
    ),
    ids=str,
)  # fmt: skip
def test_systems(device: Device, shapes: tuple[tuple[int, ...], ...], dtype: str) -> None:
    a, b = shapes
    """By `solve`, and by `lu_solve`."""
    matrix, sides = random(a, dtype), random(b, dtype, 1)
    x = on(device, solve, matrix, sides)
    single = "float32" if dtype == "float16" else dtype
    wide, given = matrix.astype(single), sides.astype(single)
    vector = len(b) == 1
    column, right = (x[..., None], given[:, None]) if vector else (x, given)
    assert x.shape == np.linalg.solve(wide, right).shape[: -1 if vector else None]
    assert ratio(wide @ column - right, wide, column) < 30
    again = on(device, lambda p, q: lu_solve(lu_factor(p), q), wide, given)
    assert again.shape == x.shape
    assert ratio(wide @ (again[..., None] if vector else again) - right, wide, column) < 30


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", list(square_matrices()))
def test_systems_of_every_kind(device: Device, name: str, dtype: str) -> None:
    a, b = square_matrices()[name].astype(dtype), random((40, 3), dtype, 2)
    x = on(device, solve, a, b)
    if np.all(np.isfinite(x)):
        assert ratio((a.astype(np.float64) @ x - b).astype(dtype), a, x) < 30
    else:
        assert not np.all(np.isfinite(np.linalg.solve(a, b)))
    check_factors(a, *on(device, lu_factor, a))


@pytest.mark.parametrize("upper", [False, True], ids=["lower", "upper"])
@pytest.mark.parametrize("transposed", [False, True], ids=["", "transposed"])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("n", [1, 18, 70])
def test_triangles(device: Device, n: int, dtype: str, transposed: bool, upper: bool) -> None:
    """Of which one triangle is not read, nor the diagonal where it is ones."""
    t = (np.triu if upper else np.tril)(random((n, n), dtype)) / 4 + 2 * np.eye(n)
    t = t.astype(dtype)
    other = np.tri(n, k=-1, dtype=bool) if upper else ~np.tri(n, dtype=bool)
    given, b = np.where(other, np.nan, t).astype(dtype), random((n, 5), dtype, 1)
    for unit in (False, True):
        if unit:
            np.fill_diagonal(given, np.nan)
            t = t / 2 + np.diag(1 - np.diag(t) / 2).astype(dtype)
            given = np.where(np.isnan(given), given, t)
        with portable.use(device.name):
            x = device.to_numpy(
                solve_triangular(
                    device.from_numpy(given),
                    device.from_numpy(b),
                    upper=upper,
                    transposed=transposed,
                    unit_diagonal=unit,
                )
            )
        assert ratio((adjoint(t) if transposed else t) @ x - b, t, x) < 30


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_triangles_that_are_ill_conditioned(device: Device, dtype: str) -> None:
    """Residuals stay small however large the inverse is."""
    t = np.triu(random((60, 60), dtype))
    x = on(device, solve_triangular, t, (t @ random((60, 3), dtype, 1)), upper=True)
    b = t @ random((60, 3), dtype, 1)
    assert ratio(t @ x - b, t, x) < 30


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("shape", [(1, 1), (2, 17, 17), (40, 40)], ids=str)
def test_inverses(device: Device, shape: tuple[int, ...], dtype: str) -> None:
    a = random(shape, dtype)
    found = on(device, inv, a)
    assert ratio(a @ found - np.eye(shape[-1], dtype=dtype), a, found) < 30


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (2, 3, 7, 7), (40, 40), (0, 0), (2, 0, 0), (0, 3, 3)])
def test_determinants(device: Device, shape: tuple[int, ...], dtype: str) -> None:
    a = random(shape, dtype)
    single = a.astype("float32" if dtype == "float16" else dtype)
    expected = np.linalg.slogdet(single)
    sign, logarithm = on(device, slogdet, a)
    room = 1e-3 if sign.dtype.itemsize <= (8 if np.iscomplexobj(sign) else 4) else 1e-11
    np.testing.assert_allclose(sign, expected.sign, atol=room)
    np.testing.assert_allclose(logarithm, expected.logabsdet, rtol=room, atol=room)
    np.testing.assert_allclose(on(device, det, a), np.linalg.det(single), rtol=4 * room)


def test_singular_matrices(device: Device) -> None:
    a = np.stack([random((20, 20), "float32"), np.zeros((20, 20), np.float32)])
    a[1, :3, :3] = np.eye(3)
    b = np.ones((20, 1), np.float32)
    for call in (solve, lambda x, _: inv(x)):
        with pytest.raises(np.linalg.LinAlgError, match=r"column 3 .matrix 1 of 2"):
            on(device, call, a, b)
    assert on(device, det, a)[1] == 0
    sign, logarithm = on(device, slogdet, a)
    assert sign[1] == 0
    assert logarithm[1] == -np.inf
    lu, _ = on(device, lu_factor, a)
    assert lu[1, 3, 3] == 0


@pytest.mark.parametrize("value", [np.nan, np.inf], ids=str)
def test_what_is_not_finite_ends(device: Device, value: float) -> None:
    a, b = random((20, 20), "float32"), np.ones((20, 2), np.float32)
    a[5, 6] = value
    with portable.use(device.name):
        x = device.to_numpy(solve(device.from_numpy(a), device.from_numpy(b)))
    # An infinite pivot leaves zeros of its column, by LAPACK too.
    assert np.isinf(value) or not np.any(np.isfinite(x))


@pytest.mark.parametrize(
    ("a", "b"), [((0, 0), (0,)), ((0, 0), (0, 3)), ((4, 4), (4, 0)), ((0, 4, 4), (4, 2))], ids=str
)
def test_empty_systems(device: Device, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x = on(device, solve, np.empty(a, np.float32), np.empty(b, np.float32))
    assert x.size == 0
    lu, pivots = on(device, lu_factor, np.empty((3, 0), np.float32))
    assert (lu.shape, pivots.shape) == ((3, 0), (0,))


def test_what_is_refused(device: Device) -> None:
    a: Any = np.ones((3, 3), np.float32)
    refused = [
        (ShapeError, "square", a[:2], a),
        (ShapeError, "right-hand sides", a, a[:2]),
        (DTypeError, "one dtype", a, a.astype(np.float16)),
        (DTypeError, "int32", a.astype(np.int32), a.astype(np.int32)),
    ]
    for error, match, *arrays in refused:
        with pytest.raises(error, match=match):
            on(device, solve, *arrays)


@pytest.mark.parametrize("profile", of_today("h200", "intel-cpu"))
def test_as_other_devices_do_it(profile: str) -> None:
    """With races looked for."""
    device = portable.device(f"simulator:{profile}")
    for dtype, shape in (("float32", (40, 70)), ("complex64", (20, 20))):
        a = random(shape, dtype)
        check_factors(a, *on(device, lu_factor, a))
    a, b = random((80, 80), "float32"), random((80, 9), "float32")
    x = on(device, solve, a, b)
    assert ratio(a @ x - b, a, x) < 30


@pytest.mark.parametrize("shape", [(40, 40), (30, 50), (50, 37)], ids=str)
def test_blocks_of_one_panel(shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """As of large matrices on a GPU, whose rows change places once for a block and the next."""
    monkeypatch.setattr(elimination, "WIDE", 16)
    a = random(shape, "float32")
    check_factors(a, *on(portable.device("simulator:h200"), lu_factor, a))
