"""Singular values of bidiagonal matrices, on every device."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import portable
from portable import lang as kl
from portable.backend import Device
from portable.errors import DTypeError, ShapeError
from portable.lang.kernel import kernel
from portable.linalg import bidiagonal_svd, bidiagonal_svdvals
from portable.linalg.singular_values.bidiagonal import bisected, divided_by_roots, search_for
from tests.linalg.spectral_matrices import check_svd
from tests.support.lapack import bdsqr

TOLERANCE = {"float32": 1e-5, "float64": 1e-13}
DTYPES = ["float32", "float64"]


def computed(device: Device, d: Any, e: Any, **options: Any) -> np.ndarray:
    with portable.use(device.name):
        result = bidiagonal_svdvals(device.from_numpy(d), device.from_numpy(e), **options)
    assert device.owns(result)
    return device.to_numpy(result)


def check(device: Device, d: np.ndarray, e: np.ndarray, reference: np.ndarray) -> None:
    """Every value is near its own reference, however small, and they are sorted."""
    values = computed(device, d, e)
    assert values.dtype == d.dtype
    assert np.all(np.diff(values) <= 0)
    np.testing.assert_allclose(values, reference, rtol=TOLERANCE[d.dtype.name], atol=0)


def exact(d: np.ndarray, e: np.ndarray) -> np.ndarray:
    with mpmath.workdps(80):
        matrix = mpmath.diag([mpmath.mpf(float(x)) for x in d])
        for i, x in enumerate(e):
            matrix[i, i + 1] = mpmath.mpf(float(x))
        return np.array([float(x) for x in mpmath.svd_r(matrix, compute_uv=False)])


def graded(n: int, dtype: str, orders: float = 12) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    scale = np.logspace(0, -orders, n)
    d = scale * rng.uniform(0.5, 2, n)
    e = scale[1:] * rng.uniform(0.5, 2, n - 1)
    return d.astype(dtype), e.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 7, 33])
def test_random_against_lapack(device: Device, n: int, dtype: str) -> None:
    rng = np.random.default_rng(n)
    d, e = rng.standard_normal(n).astype(dtype), rng.standard_normal(n - 1).astype(dtype)
    check(device, d, e, bdsqr(d, e))


@pytest.mark.parametrize("split", [1, 2, 3])
def test_any_number_of_levels_in_a_pass(monkeypatch: pytest.MonkeyPatch, split: int) -> None:
    """Five where values are few, fewer where units have no time for all nodes."""
    device, rng = portable.device("simulator"), np.random.default_rng(split)
    assert search_for(9, portable.float64, device.capabilities)[0].split == 5
    assert search_for(10**6, portable.float64, device.capabilities)[0].split == 1
    monkeypatch.setattr("portable.linalg.singular_values.bidiagonal.SPLITS", (split,))
    search_for.cache_clear()
    d, e = rng.standard_normal(9), rng.standard_normal(8)
    check(device, d, e, bdsqr(d, e))
    search_for.cache_clear()


@pytest.mark.needs_processor
def test_processors_compile_nothing_for_further_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    device = portable.device("cpu")
    rng = np.random.default_rng(4)
    sizes = {n: (rng.standard_normal(n), rng.standard_normal(n - 1)) for n in (30, 20, 70)}
    computed(device, *sizes.pop(30))
    compiled: list[str] = []
    monkeypatch.setattr(type(device), "compile", lambda _, program: compiled.append(program.entry))
    for d, e in sizes.values():
        check(device, d, e, bdsqr(d, e))
    assert compiled == []


@pytest.mark.needs_compiler
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [333, 1500])
def test_larger_ones_against_lapack(device: Device, n: int, dtype: str) -> None:
    d, e = graded(n, dtype, 6)
    check(device, d, e, bdsqr(d, e))


@kernel
def divide_by_roots(x: kl.Array, by: kl.Array, out: kl.Array) -> None:
    i = kl.global_id(0)
    if i < out.shape[0]:
        out[i] = divided_by_roots(x[i], by[i])


def test_quotients_by_roots_are_as_good_as_divisions(device: Device) -> None:
    """Near the exact ones, and not to one side of them, which many rows would add up."""
    rng, n = np.random.default_rng(7), 997
    x, by = (np.exp2(rng.uniform(-40, 80, n)).astype(np.float32) for _ in range(2))
    by *= rng.choice([-1, 1], n).astype(np.float32)
    x[:4], by[:4] = [2, -2, 0, np.inf], [0, 0, 0, -np.inf]
    out = device.empty((n,), portable.float32)
    divide_by_roots[n](device.from_numpy(x), device.from_numpy(by), out)
    quotients = device.to_numpy(out)
    np.testing.assert_array_equal(quotients[:4], [np.inf, -np.inf, np.nan, np.nan])
    errors = quotients[4:] / (x[4:].astype(np.float64) / by[4:]) - 1
    assert np.abs(errors).max() < 2.0**-23
    assert abs(errors.mean()) < 2.0**-27


FLAT = {
    "random": lambda n, rng: (rng.standard_normal(n), rng.standard_normal(n - 1)),
    "equal": lambda n, rng: (np.full(n, 1 / 3), np.zeros(n - 1)),
    "zeros": lambda n, rng: (np.arange(n) % 3 > 0, np.arange(n - 1) % 4 > 0),
    "one": lambda n, rng: (np.arange(n) == n // 2, np.zeros(n - 1)),
    "close": lambda n, rng: (1 + 1e-7 * rng.standard_normal(n), np.full(n - 1, 1e-9)),
    "falling": lambda n, rng: (np.logspace(0, -30, n), np.logspace(0, -30, n)[1:]),
    "rising": lambda n, rng: (np.logspace(-30, 0, n), np.logspace(-30, 0, n)[1:]),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FLAT)
@pytest.mark.parametrize("n", [1, 4, 30])
def test_squares_as_accurate_as_the_largest(device: Device, n: int, name: str, dtype: str) -> None:
    """By signs of minors, which are near 0 for many rows of equal or vanishing entries."""
    d, e = (x.astype(dtype) for x in FLAT[name](n, np.random.default_rng(n)))
    matrix = (np.diag(d) + np.diag(e, 1)[:n, :n]).astype(np.float64)
    bound = 1.001 * np.abs(matrix.T @ matrix).sum(0).max() + 1e-3
    values = device.empty((n,), kl.f32 if dtype == "float32" else kl.f64)
    largest = device.from_numpy(np.array([bound**0.5], dtype))
    pair = device.from_numpy(d), device.from_numpy(e)
    bisected(device, pair, largest, values, relative=False)
    found = device.to_numpy(values).astype(np.float64)
    assert np.all(np.diff(found) <= 0)
    wanted = bdsqr(*(x.astype(np.float64) for x in (d, e)))
    room = 4 if dtype == "float32" else 8  # LAPACK is five off the exact ones itself
    assert np.abs(found**2 - wanted**2).max() <= room * np.finfo(dtype).eps * bound


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upward", [False, True])
def test_graded_to_high_relative_accuracy(device: Device, dtype: str, upward: bool) -> None:
    d, e = graded(16, dtype)
    if upward:
        d, e = d[::-1].copy(), e[::-1].copy()
    check(device, d, e, exact(d, e))


@pytest.mark.parametrize("dtype", DTYPES)
def test_against_arithmetic_of_many_digits(device: Device, dtype: str) -> None:
    rng = np.random.default_rng(5)
    n = 12
    d = (rng.standard_normal(n) * 10.0 ** rng.integers(-6, 6, n)).astype(dtype)
    e = (rng.standard_normal(n - 1) * 10.0 ** rng.integers(-6, 6, n - 1)).astype(dtype)
    check(device, d, e, exact(d, e))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("power", [-1, 1])
def test_scales_that_squares_would_leave(device: Device, dtype: str, power: int) -> None:
    largest = np.finfo(dtype).max / 8 if power > 0 else np.finfo(dtype).tiny * 2.0**30
    d, e = graded(9, dtype, 2)
    reference = bdsqr(d, e)
    check(device, (d * largest).astype(dtype), (e * largest).astype(dtype), reference * largest)


@pytest.mark.parametrize("dtype", DTYPES)
def test_splits_zeros_and_clusters(device: Device, dtype: str) -> None:
    diagonal = np.array([1, 1, 1, 0, 3, 3, 0, 1], dtype)
    off = np.array([0, 0, 2, 2, 0, 1, 0], dtype)
    values = computed(device, diagonal, off)
    reference = bdsqr(diagonal, off)
    np.testing.assert_allclose(values, reference, rtol=1e-5, atol=np.finfo(dtype).eps)
    np.testing.assert_array_equal(computed(device, 0 * diagonal, 0 * off), np.zeros(8))


def test_half_precision_gives_single(device: Device) -> None:
    d, e = (x.astype(np.float16) for x in graded(10, "float32", 2))
    values = computed(device, d, e)
    assert values.dtype == np.float32
    np.testing.assert_allclose(values, bdsqr(d, e), rtol=1e-5)


def test_nothing(device: Device) -> None:
    empty = np.zeros(0, np.float32)
    assert computed(device, empty, empty).shape == (0,)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["d", "e"])
def test_refuses_what_is_not_finite(device: Device, bad: float, where: str) -> None:
    d, e = graded(6, "float32", 1)
    (d if where == "d" else e)[3] = bad
    with pytest.raises(ValueError, match="NaN" if np.isnan(bad) else "infinity"):
        computed(device, d, e)


@pytest.mark.needs_processor
def test_refuses_other_shapes_and_dtypes() -> None:
    d = np.ones(4, np.float32)
    with pytest.raises(ShapeError, match=r"\(4,\) and \(4,\)"):
        bidiagonal_svdvals(d, d)
    with pytest.raises(ShapeError):
        bidiagonal_svdvals(np.ones((2, 2), np.float32), d[:1])
    with pytest.raises(DTypeError, match="one dtype"):
        bidiagonal_svdvals(d, np.ones(3))
    with pytest.raises(DTypeError, match="int64"):
        bidiagonal_svdvals(np.ones(4, np.int64), np.ones(3, np.int64))


def exact_vectors(d: np.ndarray, e: np.ndarray) -> tuple[np.ndarray, ...]:
    with mpmath.workdps(60):
        matrix = mpmath.diag([mpmath.mpf(float(x)) for x in d])
        for i, x in enumerate(e):
            matrix[i, i + 1] = mpmath.mpf(float(x))
        u, s, vh = mpmath.svd_r(matrix)
    return tuple(np.array(x.tolist(), dtype=np.float64) for x in (u, s.T, vh))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("turned", [False, True])
def test_small_values_have_accurate_vectors(device: Device, dtype: str, turned: bool) -> None:
    """Each element of each vector is right, of values far below the largest one's roundoff."""
    d, e = graded(7, dtype, 14)
    if turned:
        d, e = d[::-1].copy(), e[::-1].copy()
    with portable.use(device.name):
        found = bidiagonal_svd(device.from_numpy(d), device.from_numpy(e))
    u, s, vh = (device.to_numpy(x).astype(np.float64) for x in found)
    left, values, right = exact_vectors(d, e)
    np.testing.assert_allclose(s, values[0], rtol=TOLERANCE[dtype], atol=0)
    signs = np.sign(np.sum(vh * right, axis=1))
    np.testing.assert_allclose(vh * signs[:, None], right, atol=TOLERANCE[dtype])
    np.testing.assert_allclose(u * signs, left, atol=TOLERANCE[dtype])


def some_bidiagonal(name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    d, e = rng.standard_normal(n), rng.standard_normal(n - 1)
    match name:
        case "zeros":
            d[[0, n // 2, -1]], e[n // 3 : n // 3 + 1] = 0, 0
        case "wild":
            d, e = 10 ** rng.uniform(-12, 0, n), 10 ** rng.uniform(-12, 0, n - 1)
        case "equal":
            d, e = np.ones(n), np.ones(n - 1)
        case "nothing":
            d, e = d * 0, e * 0
    return d.astype(np.float32), e.astype(np.float32)


@pytest.mark.parametrize(
    ("n", "name"),
    [(1, "random"), (2, "random"), (67, "random"), (7, "zeros"), (7, "wild"), (7, "equal"),
     (7, "nothing")],
)  # fmt: skip
def test_vectors_of_bidiagonal_matrices(device: Device, n: int, name: str) -> None:
    n = 9 if device.interprets else n
    d, e = some_bidiagonal(name, n)
    with portable.use(device.name):
        u, s, vh = bidiagonal_svd(device.from_numpy(d), device.from_numpy(e))
        values = bidiagonal_svdvals(device.from_numpy(d), device.from_numpy(e))
    s, values = device.to_numpy(s), device.to_numpy(values)
    check_svd(np.diag(d) + np.diag(e, 1), device.to_numpy(u), s, device.to_numpy(vh))
    np.testing.assert_allclose(s, values, rtol=1e-5, atol=1e-30)


def test_vectors_of_no_bidiagonal_matrix() -> None:
    d = np.ones(3, np.float32)
    assert [x.shape for x in bidiagonal_svd(d[:0], d[:0])] == [(0, 0), (0,), (0, 0)]
    with pytest.raises(ShapeError, match="bidiagonal_svd takes the diagonal"):
        bidiagonal_svd(d, d)
    with pytest.raises(ValueError, match="NaN"):
        bidiagonal_svd(d * np.nan, d[:2])
