"""Products of matrices at the sizes that people use, by every function of arrays that makes one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import portable
from portable import numerics
from portable.backend import Device
from portable.linalg.products.check import tolerance
from portable.tune.search import worst_error

Array = np.ndarray[Any, Any]

_CALLS: Final = 3
"""The first writes a recipe, the second runs it, the third finds memory that was used before."""


def _at(_: Any, a: Any, b: Any) -> Any:
    return a @ b


def _matmul(xp: Any, a: Any, b: Any) -> Any:
    return xp.matmul(a, b)


def _tensordot(xp: Any, a: Any, b: Any) -> Any:
    return xp.tensordot(a, b, axes=1)


def _einsum(_: Any, a: Any, b: Any) -> Any:
    return numerics.einsum("ij,jk->ik", a, b)


def _linalg(xp: Any, a: Any, b: Any) -> Any:
    return xp.linalg.matmul(a, b)


def _gemm(_: Any, a: Any, b: Any) -> Any:
    return portable.linalg.gemm(a, b)


Product = Callable[[Any, Any, Any], Any]
_PRODUCTS: Final[tuple[Product, ...]] = (_at, _matmul, _tensordot, _einsum, _linalg, _gemm)


def _operands(m: int, k: int, n: int, dtype: str, turned: str) -> tuple[Array, Array]:
    """Small whole numbers and their halves, as views that are transposed where `turned` says so."""
    random = np.random.default_rng([m, k, n])
    a, b = (
        random.integers(-8, 9, shape[::-1] if name in turned else shape).astype(dtype) / 2
        for name, shape in (("a", (m, k)), ("b", (k, n)))
    )
    return (a.T if "a" in turned else a), (b.T if "b" in turned else b)


def _assert_product(found: Any, a: Array, b: Array) -> None:
    got = portable.to_numpy(found)
    wide = a.astype(np.float64), b.astype(np.float64)
    size = abs(wide[0]) @ abs(wide[1])
    assert got.dtype == a.dtype
    assert worst_error(got, wide[0] @ wide[1], tolerance(a.shape[1], a.dtype) * size) <= 1


def _on(device: Device, x: Array, turned: bool) -> Any:
    return device.from_numpy(np.ascontiguousarray(x.T)).T if turned else device.from_numpy(x)


@pytest.mark.needs_compiler
@pytest.mark.parametrize(
    ("extents", "dtype", "turned"),
    [
        ((448, 448, 448), "float32", ""),
        ((450, 450, 450), "float64", "a"),
        ((1024, 1024, 1024), "float32", "b"),
        ((2000, 500, 500), "float64", ""),
        ((500, 450, 448), "float16", "ab"),
        ((1025, 333, 777), "float32", ""),
    ],
)
def test_products_of_ordinary_extents(
    ours: Device, extents: tuple[int, int, int], dtype: str, turned: str
) -> None:
    """Each door makes it when it is first called and when it is known again."""
    if dtype == "float64" and not ours.capabilities.float64:
        pytest.skip(f"{ours.name} lacks double precision")
    a, b = _operands(*extents, dtype, turned)
    xp = portable.xp(ours)
    for product in _PRODUCTS:
        for _ in range(_CALLS):
            left, right = _on(ours, a, "a" in turned), _on(ours, b, "b" in turned)
            _assert_product(product(xp, left, right), a, b)


@pytest.mark.needs_compiler
def test_powers_of_matrices_of_ordinary_extents(ours: Device) -> None:
    a = np.eye(500, dtype=np.float32)[::-1].copy()
    a[3, 5] = 0.5
    for _ in range(_CALLS):
        found = portable.to_numpy(portable.xp(ours).linalg.matrix_power(ours.from_numpy(a), 5))
        np.testing.assert_array_equal(found, np.linalg.matrix_power(a, 5))


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "int64", "float64"])
@pytest.mark.parametrize("size", [(5000,), (3, 1, 700), (4, 2)], ids=str)
def test_vecdot_reads_each_element_once(ours: Device, size: tuple[int, ...], dtype: str) -> None:
    """In one launch, or two where sums are cut, and no product is kept in memory."""
    if dtype == "float64" and not ours.capabilities.float64:
        pytest.skip("no float64")
    xp = portable.xp(ours)
    random = np.random.default_rng(len(size))
    a = random.integers(-3, 4, size).astype(dtype)
    b = random.integers(-3, 4, (2, size[-1]) if len(size) > 2 else size).astype(dtype)
    x, y = ours.from_numpy(a), ours.from_numpy(b)
    wanted = np.sum(a.astype(np.int64) * b, axis=-1).astype(dtype)
    for left, right in ((x, y), (y, x)):
        with portable.profile() as profile:
            found = xp.vecdot(left, right)
        np.testing.assert_array_equal(portable.to_numpy(found), wanted)
        assert {span.entry.name for span in profile.spans if span.entry.kind == "launch"} == {
            "reduce_by_workgroup"
        }
    turned = ours.from_numpy(np.flip(a, axis=-1).copy())
    found = xp.vecdot(xp.flip(turned, axis=-1), y)
    np.testing.assert_array_equal(portable.to_numpy(found), wanted)


@pytest.mark.parametrize("dtype", ["complex64", "int32"])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 40_000, 1), (20, 700, 1), (1, 700, 3), (3, 300, 2)])
def test_long_sums_of_few_products(ours: Device, dtype: str, m: int, k: int, n: int) -> None:
    """Vectors that no tiles take are not left to a work-item for each result."""
    k = min(k, 2000) if ours.interprets else k
    random = np.random.default_rng(k)
    a, b = (random.integers(-9, 9, shape).astype(dtype) for shape in ((m, k), (k, n)))
    if dtype == "complex64":
        a += (1j * random.integers(-9, 9, a.shape)).astype(dtype)
    found = portable.to_numpy(ours.from_numpy(a) @ ours.from_numpy(b))
    assert found.dtype == a.dtype
    np.testing.assert_allclose(found, a @ b, rtol=1e-5)
