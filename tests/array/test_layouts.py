"""Results in the layout of their operands, every other element, and numbers in pairs."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

import portable
import portable.array as xp
from portable.array.functions import products
from portable.backend import Device

_PRODUCTS = (
    ((33, 17), (17, 9)),
    ((1, 50), (50, 70)),
    ((50,), (50, 70)),
    ((70, 50), (50,)),
    ((3, 1), (1, 5)),
    ((5, 8, 8), (5, 8, 8)),
    ((2, 3, 7, 5), (5, 4)),
    ((4, 5), (3, 5, 6)),
    ((1, 1), (1, 1)),
)
_ROWS = ((1000,), (777,), (64, 48), (33, 7), (4, 5, 6), (3, 3000), (3000, 3), (16,), (1,))


def drawn(shape: tuple[int, ...], kind: str = "complex64") -> Any:
    random = np.random.default_rng(len(shape) + sum(shape))
    return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(kind)


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_results_lie_as_their_operands(ours: Device, order: tuple[int, ...]) -> None:
    host = np.arange(2 * 3 * 5, dtype=np.float32).reshape(2, 3, 5)
    x, like = xp.permute_dims(ours.from_numpy(host), order), host.transpose(order)
    found = x * 2 + x
    assert found.strides == (like * 2).strides
    np.testing.assert_array_equal(portable.to_numpy(found), like * 3)
    np.testing.assert_array_equal(portable.to_numpy(xp.reshape(found, (-1,))), (like * 3).ravel())
    np.testing.assert_array_equal(portable.to_numpy(xp.sum(found, axis=1)), (like * 3).sum(1))
    copied = xp.asarray(x, copy=True)
    assert copied.is_contiguous
    np.testing.assert_array_equal(portable.to_numpy(copied + x), like * 2)
    chosen = xp.where(x > 7, x, 0)
    np.testing.assert_array_equal(portable.to_numpy(chosen), np.where(like > 7, like, 0))


@pytest.mark.parametrize("kind", ["float32", "int32", "int64", "uint8", "complex64"])
def test_every_other_element(ours: Device, kind: str) -> None:
    for extent in (1, 2, 3, 16, 31, 32, 33, 63, 64, 65, 129):
        host = np.arange(3 * extent).reshape(3, extent).astype(kind)
        x = ours.from_numpy(host)
        np.testing.assert_array_equal(portable.to_numpy(x[:, ::2] * 2), host[:, ::2] * 2)
        np.testing.assert_array_equal(portable.to_numpy(x[:, 1::2] + 1), host[:, 1::2] + 1)
        both = x[:, ::2] + x[:, ::-1][:, ::2]
        np.testing.assert_array_equal(portable.to_numpy(both), host[:, ::2] + host[:, ::-2])


@pytest.mark.parametrize("shapes", _PRODUCTS)
def test_products_of_complex_numbers(ours: Device, shapes: Any) -> None:
    a, b = map(drawn, shapes)
    found = portable.to_numpy(xp.matmul(ours.from_numpy(a), ours.from_numpy(b)))
    assert found.dtype == a.dtype
    np.testing.assert_allclose(found, a @ b, atol=1e-4)


def test_products_of_complex_views(ours: Device) -> None:
    a, b = drawn((40, 30)), drawn((50, 30))
    x, y = ours.from_numpy(a), ours.from_numpy(b)
    turned = xp.permute_dims(ours.from_numpy(np.ascontiguousarray(a.T)), (1, 0))
    found = portable.to_numpy(xp.matmul(turned, xp.permute_dims(y, (1, 0))))
    np.testing.assert_allclose(found, a @ b.T, atol=1e-4)
    found = portable.to_numpy(xp.matmul(x[::2, ::3], xp.permute_dims(y, (1, 0))[::3]))
    np.testing.assert_allclose(found, a[::2, ::3] @ b.T[::3], atol=1e-4)


def test_large_complex_products_as_gpus_make_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_SMALL", 1)
    a, b = drawn((21, 23)), drawn((23, 19))
    with portable.profile() as profile:
        device = portable.device("simulator:h200").for_arrays()
        found = portable.to_numpy(device.from_numpy(a) @ device.from_numpy(b))
    assert "gemm_tiles" in {span.entry.name for span in profile.spans}
    np.testing.assert_allclose(found, a @ b, atol=1e-4)


@pytest.mark.parametrize("shape", _ROWS)
def test_sums_of_complex_numbers(ours: Device, shape: tuple[int, ...]) -> None:
    host = drawn(shape)
    whole = ours.from_numpy(host)
    turned = xp.permute_dims(whole, tuple(range(len(shape)))[::-1])
    pairs = ((host, whole), (host.T, turned), (host[::2], whole[::2]))
    for axis in (None, *range(len(shape)), *([(1, 0)] if len(shape) > 1 else [])):
        for like, x in pairs:
            found = portable.to_numpy(xp.sum(x, axis=axis, keepdims=True))
            wanted = like.astype(np.complex128).sum(axis=axis, keepdims=True)
            np.testing.assert_allclose(found, wanted, atol=1e-3)
