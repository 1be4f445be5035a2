"""Creation, manipulation, reductions, sorting, sets, products and the rest against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable
import portable as pt
import portable.array as xp
from portable.backend import Device
from portable.errors import DTypeError, ShapeError

RNG = np.random.default_rng(0)
CUBE = RNG.standard_normal((5, 7, 6))
VIEWS = [np.s_[:], np.s_[::2, ::-1, 1:]]


def same(found: Any, expected: Any, rtol: float = 1e-5) -> None:
    expected = np.asarray(expected)
    got = portable.to_numpy(found)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    if got.dtype.kind in "fc":
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol)
    else:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)], ids=str)
@pytest.mark.parametrize("view", VIEWS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "complex128", "int16"])
def test_reductions(ours: Device, dtype: str, view: Any, axis: Any) -> None:
    base = (CUBE * 3).astype(dtype)
    a, x = base[view], ours.from_numpy(base)[view]
    wide = np.int64 if dtype == "int16" else None
    same(xp.sum(x, axis=axis), np.sum(a, axis=axis, dtype=wide), 1e-4)
    same(xp.any(x, axis=axis, keepdims=True), np.any(a, axis=axis, keepdims=True))
    if dtype != "complex128":
        same(xp.max(x, axis=axis, keepdims=True), np.max(a, axis=axis, keepdims=True))
    if dtype == "float32":
        same(xp.prod(x / 3, axis=axis), np.prod(a / np.float32(3), axis=axis), 1e-4)
        same(xp.var(x, axis=axis, correction=1), np.var(a, axis=axis, correction=1), 1e-4)


@pytest.mark.parametrize("shape", [(100_003,), (300, 401), (301, 400)], ids=str)
def test_long_reductions(ours: Device, shape: tuple[int, ...]) -> None:
    if ours.interprets:
        shape = (*shape[:-1], shape[-1] // 9)
    a = RNG.standard_normal(shape).astype(np.float32)
    x = ours.from_numpy(a)
    same(xp.sum(x), np.sum(a, dtype=np.float64).astype(np.float32), 1e-3)
    same(xp.argmax(x), np.argmax(a))
    for axis in range(a.ndim):
        same(xp.sum(x, axis=axis), np.sum(a, axis=axis), 1e-3)
        same(xp.min(x, axis=axis), np.min(a, axis=axis))
        same(xp.argmin(x, axis=axis), np.argmin(a, axis=axis))
        same(xp.cumulative_sum(x, axis=axis), np.cumsum(a.astype(float), axis).astype("f4"), 2e-2)


def test_reductions_of_nothing(ours: Device) -> None:
    x = xp.ones((0, 3), device=ours)
    same(xp.sum(x, axis=0), np.zeros(3))
    same(xp.all(x), np.True_)
    same(xp.prod(x, axis=1), np.ones(0))
    with pytest.raises(ValueError, match="max of no elements"):
        xp.max(x, axis=0)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_sorting_is_stable(ours: Device, dtype: str, descending: bool) -> None:
    a = RNG.integers(0, 20, (3, 1000)).astype(dtype)
    x = ours.from_numpy(a)
    order = np.argsort(-a.astype(int) if descending else a, axis=1, stable=True)
    same(xp.argsort(x, descending=descending), order)
    same(xp.sort(x, descending=descending), np.take_along_axis(a, order, 1))


def test_nan_sorts_last(ours: Device) -> None:
    a = np.array([1.0, np.nan, -np.inf, 0.0, np.inf, np.nan])
    same(xp.sort(ours.from_numpy(a)), np.sort(a))


def test_sets(ours: Device) -> None:
    a = RNG.integers(0, 9, (6, 7))
    for found, expected in zip(xp.unique_all(ours.from_numpy(a)), np.unique_all(a), strict=True):
        same(found, expected)
    assert xp.unique_values(ours.from_numpy(np.array([np.nan, 1, np.nan]))).shape == (3,)


def test_creation(ours: Device) -> None:
    same(xp.arange(1, 10, 3, device=ours), np.arange(1, 10, 3))
    same(xp.arange(0.0, 1, 0.1, device=ours), np.arange(0, 1, 0.1))
    same(xp.linspace(-1, 1, 9, device=ours), np.linspace(-1, 1, 9))
    same(xp.eye(3, 5, k=-1, device=ours), np.eye(3, 5, -1))
    same(xp.full((2, 0), 3, device=ours), np.full((2, 0), 3))
    same(xp.full((), True, device=ours), np.True_)
    same(xp.asarray([[1, 2], [3, 4]], device=ours), np.array([[1, 2], [3, 4]]))
    same(xp.asarray([xp.ones((), device=ours), 2.0], device=ours), np.array([1.0, 2.0]))
    x = ours.from_numpy(CUBE)
    same(xp.tril(x, k=1), np.tril(CUBE, 1))
    same(xp.triu(x, k=-1), np.triu(CUBE, -1))
    grids = xp.meshgrid(xp.arange(3, device=ours), xp.arange(4, device=ours))
    for found, expected in zip(grids, np.meshgrid(np.arange(3), np.arange(4)), strict=True):
        same(found, expected)
    assert isinstance(grids, tuple)
    assert xp.meshgrid() == ()


def test_shapes_that_broadcast() -> None:
    assert xp.broadcast_shapes((3, 1), (4,), ()) == (3, 4)
    assert xp.broadcast_shapes() == ()
    assert xp.broadcast_shapes((0, 1), (1, 7)) == (0, 7)
    with pytest.raises(ValueError, match="cannot be broadcast"):
        xp.broadcast_shapes((2,), (3,))
    with pytest.raises(ValueError, match="from 0 on"):
        xp.broadcast_shapes((2, -1))


def test_several_new_dimensions(ours: Device) -> None:
    x = ours.from_numpy(CUBE)
    for axes in ((0,), (0, -1), (1, 3), (-1, -2), ()):
        assert xp.expand_dims(x, axis=axes).shape == np.expand_dims(CUBE, axes).shape
        same(xp.expand_dims(x, axis=axes), np.expand_dims(CUBE, axes))
    with pytest.raises(ValueError, match="comes twice"):
        xp.expand_dims(x, axis=(0, 0))
    with pytest.raises(IndexError):
        xp.expand_dims(x, axis=(0, 5))


@pytest.mark.parametrize("kind", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("n", [0, 1, 2, 50])
def test_eigenvalues(ours: Device, kind: str, n: int) -> None:
    if np.dtype(kind).name in ("float64", "complex128") and not ours.capabilities.float64:
        pytest.skip(f"{ours.name} lacks double precision")
    a = np.random.default_rng(n).normal(size=(2, n, n)).astype(kind)
    values, vectors = (portable.to_numpy(part) for part in xp.linalg.eig(ours.from_numpy(a)))
    assert values.dtype == vectors.dtype == np.result_type(kind, np.complex64)
    assert values.shape == (2, n)
    bound = 50 * (n + 1) * np.finfo(kind).eps
    np.testing.assert_allclose(a @ vectors, vectors * values[:, None, :], atol=bound * (n + 1))
    alone = portable.to_numpy(xp.linalg.eigvals(ours.from_numpy(a)))
    np.testing.assert_allclose(np.sort(alone), np.sort(values), atol=bound * (n + 1))


def test_what_has_no_eigenvalues(ours: Device) -> None:
    with pytest.raises(ShapeError, match="eig takes square matrices"):
        xp.linalg.eig(xp.ones((2, 3), device=ours))
    with pytest.raises(DTypeError, match="eigvals takes float32"):
        xp.linalg.eigvals(xp.ones((2, 2), dtype=xp.int32, device=ours))
    with pytest.raises(ValueError, match="eigvals"):
        xp.linalg.eigvals(xp.full((2, 2), xp.nan, device=ours))


def test_places_of_numbers_and_lists(ours: Device) -> None:
    a = np.array([1, 3, 3, 7], np.int32)
    x = ours.from_numpy(a)
    same(xp.searchsorted(x, 3), np.asarray(1))
    same(xp.searchsorted(x, 3.5, side="right"), np.asarray(3))
    same(xp.searchsorted(x, [0, 7, 9], side="right"), np.searchsorted(a, [0, 7, 9], side="right"))


def test_manipulation(ours: Device) -> None:
    a, x = CUBE, ours.from_numpy(CUBE)
    same(xp.reshape(xp.permute_dims(x, (2, 0, 1)), (6, -1)), a.transpose(2, 0, 1).reshape(6, -1))
    same(xp.reshape(x[:, :, ::2], (35, 3), copy=False), a[:, :, ::2].reshape(35, 3))
    same(xp.concat([x, x[:2]], axis=0), np.concatenate([a, a[:2]]))
    same(xp.stack([x, x], axis=1), np.stack([a, a], 1))
    same(xp.flip(x, axis=(0, 2)), np.flip(a, (0, 2)))
    same(xp.roll(x, (2, -3), axis=(0, 2)), np.roll(a, (2, -3), (0, 2)))
    same(xp.tile(x, (2, 1, 1, 3)), np.tile(a, (2, 1, 1, 3)))
    same(xp.repeat(x, 2, axis=1), np.repeat(a, 2, 1))
    same(xp.repeat(x, xp.arange(5, device=ours), axis=0), np.repeat(a, np.arange(5), 0))
    same(xp.moveaxis(x, 0, -1), np.moveaxis(a, 0, -1))
    same(xp.squeeze(xp.expand_dims(x, axis=1), axis=1), a)
    same(xp.diff(x, axis=1, n=2), np.diff(a, axis=1, n=2))
    with pytest.raises(ShapeError):
        xp.reshape(x, (4, 4))


@pytest.mark.parametrize("wanted", ["bool", "int8", "uint32", "float16", "float64", "complex64"])
@pytest.mark.parametrize("given", ["bool", "int16", "uint64", "float32"])
def test_astype(ours: Device, given: str, wanted: str) -> None:
    a = np.array([0, 1, 2, 100, 3.7]).astype(given)
    same(xp.astype(ours.from_numpy(a), wanted), a.astype(wanted))


@pytest.mark.needs_float64
def test_doubles_become_halves_by_one_rounding(ours: Device) -> None:
    halves = np.arange(0x3C00, 0x4000, dtype=np.uint16).view(np.float16).astype(np.float64)
    a = (halves[1:] + halves[:-1]) / 2 * (1 + 2.0**-45)
    expected, x = a.astype(np.float16), ours.from_numpy(a)
    out = xp.zeros(a.shape, dtype=xp.float16, device=ours)
    out[...] = x
    fused = portable.fuse(lambda y: xp.astype(y, xp.float16) * 2)
    same(out, expected)
    same(xp.astype(x, xp.float16), expected)
    same(xp.astype(xp.flip(x), xp.float16), expected[::-1])
    same(fused(x), expected * np.float16(2))


def test_searching(ours: Device) -> None:
    a, x = CUBE, ours.from_numpy(CUBE)
    for found, expected in zip(xp.nonzero(x > 0), np.nonzero(a > 0), strict=True):
        same(found, expected)
    table = np.sort(a[0, 0])
    for side in ("left", "right"):
        found = xp.searchsorted(ours.from_numpy(table), x, side=side)
        same(found, np.searchsorted(table, a, side=side))  # type: ignore[call-overload]
    same(xp.take_along_axis(x, xp.argsort(x, axis=1), axis=1), np.sort(a, 1))
    same(xp.take(x, xp.asarray([2, 0], device=ours), axis=1), np.take(a, [2, 0], 1))


@pytest.mark.parametrize("dtype", ["float32", "int32", "complex64"])
def test_products(ours: Device, dtype: str) -> None:
    a = (CUBE * 3).astype(dtype)
    x = ours.from_numpy(a)
    same(x @ x.mT, a @ a.swapaxes(1, 2), 1e-4)
    same(x @ x[0, 0], a @ a[0, 0], 1e-4)
    same(xp.tensordot(x, x, axes=((0, 1), (0, 1))), np.tensordot(a, a, ((0, 1), (0, 1))), 1e-4)
    same(xp.vecdot(x, x), np.vecdot(a, a), 1e-4)


def _check_vector_products(device: Device, shape: tuple[int, int], dtype: str) -> None:
    """With matrices in both orders and views of them, within the rounding of |a| |x|."""
    a = RNG.standard_normal(shape).astype(dtype)
    x, y = (RNG.standard_normal(n).astype(dtype) for n in (shape[1], shape[0]))
    ours, right, left = (device.from_numpy(v) for v in (a, x, y))
    for found, rows, vector in (
        (ours @ right, a, x),
        (right @ ours.mT, a, x),
        (left @ ours, a.T, y),
        (ours.mT @ left, a.T, y),
        (ours[::2] @ right, a[::2], x),
        (ours[:, ::-1] @ right[::-1], a[:, ::-1], x[::-1]),
    ):
        exact = rows.astype(np.float64) @ vector.astype(np.float64)
        bound = np.abs(rows).astype(np.float64) @ np.abs(vector).astype(np.float64)
        error = np.abs(pt.to_numpy(found).astype(np.float64) - exact)
        assert (error <= 8 * np.finfo(dtype).eps * bound).all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_products_with_vectors(ours: Device, dtype: str) -> None:
    _check_vector_products(ours, (37, 173), dtype)
    _check_vector_products(ours, (173, 37), dtype)


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (40, 1), (8, 16), (9, 128), (130, 17)])
def test_products_with_vectors_as_processors_do_them(shape: tuple[int, int]) -> None:
    device = pt.device("simulator:intel-cpu").for_arrays()
    _check_vector_products(device, shape, "float32")
    none = device.from_numpy(np.zeros((3, 0), np.float32))
    same(none @ device.from_numpy(np.zeros(0, np.float32)), np.zeros(3, np.float32))


def test_linalg(ours: Device) -> None:
    a = CUBE[:, :6, :] + 4 * np.eye(6)
    x = ours.from_numpy(a)
    same(xp.linalg.inv(x), np.linalg.inv(a))
    same(xp.linalg.solve(x, x[..., 0, :, None]), np.linalg.solve(a, a[..., 0, :, None]))
    same(xp.linalg.svdvals(x), np.linalg.svd(a, compute_uv=False))
    same(xp.linalg.trace(x, offset=1), np.trace(a, 1, -2, -1))
    same(xp.linalg.matrix_power(x, 5), np.linalg.matrix_power(a, 5))
    same(xp.linalg.matrix_norm(x, ord=1), np.linalg.matrix_norm(a, ord=1))
    same(xp.linalg.vector_norm(x, axis=1, ord=3), np.linalg.vector_norm(a, axis=1, ord=3))
    same(xp.linalg.cross(x[..., :3], x[..., 3:]), np.linalg.cross(a[..., :3], a[..., 3:]))


def test_fft(ours: Device) -> None:
    a, x = CUBE, ours.from_numpy(CUBE)
    same(xp.fft.irfft(xp.fft.rfft(x, axis=1), n=7, axis=1), a)
    same(xp.fft.fftn(x, axes=(0, 2)), np.fft.fftn(a, axes=(0, 2)))
    same(xp.fft.fftshift(x), np.fft.fftshift(a))
    same(xp.fft.fftfreq(5, d=0.5, device=ours), np.fft.fftfreq(5, 0.5))


def test_joined_arrays_that_share_memory(ours: Device) -> None:
    a = RNG.standard_normal((3, 4)).astype(np.float32)
    x, y = ours.from_numpy(a), ours.from_numpy(-a)
    # The same shapes each time: what is remembered of one call must not be taken for another.
    for parts, expected in (
        ((x, x, y), (a, a, -a)),
        ((x, y, x), (a, -a, a)),
        ((x, y, y), (a, -a, -a)),
        ((y, x, x), (-a, a, a)),
        ((x[:2], x[1:], y[:2]), (a[:2], a[1:], -a[:2])),
        ((x[1:], x[:2], x[1:]), (a[1:], a[:2], a[1:])),
    ):
        same(xp.concat(parts), np.concatenate(expected))


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_triangles(ours: Device, dtype: str) -> None:
    a = (RNG.standard_normal((2, 5, 37)) * 9).astype(dtype)
    x = ours.from_numpy(a)
    for k in (0, -2, 30):
        same(xp.tril(x, k=k), np.tril(a, k))
        same(xp.triu(x, k=k), np.triu(a, k))
    same(xp.triu(x.mT), np.triu(a.swapaxes(1, 2)))


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_norms_along_no_axes(ours: Device, dtype: str) -> None:
    a = (CUBE[0] - 1j * CUBE[1]).astype(dtype) if dtype == "complex64" else CUBE[0].astype(dtype)
    x = ours.from_numpy(a)
    same(xp.linalg.vector_norm(x), np.linalg.norm(a))
    same(xp.linalg.vector_norm(x[0, 0]), np.abs(a[0, 0]))
    same(xp.linalg.vector_norm(x, axis=()), np.abs(a))
    same(xp.linalg.vector_norm(x, axis=1, keepdims=True), np.linalg.norm(a, axis=1, keepdims=True))


@pt.kernel
def put_three(out: Any) -> None:
    out[()] = 3


def test_kernels_write_arrays_without_dimensions(ours: Device) -> None:
    x = xp.zeros((), dtype=xp.float32, device=ours)
    put_three[1, 1](x)
    assert float(x) == 3
    assert float(xp.linalg.det(xp.asarray([[2.0, 1.0], [1.0, 3.0]], device=ours))) == pytest.approx(
        5
    )
