"""Products of a row or a column and a matrix, read once where work-items are alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import portable
from portable import linalg
from portable.backend import Device
from portable.backend.profiles import load
from portable.dtypes import float32
from portable.linalg.products.by_vector import by_vector_for

RNG = np.random.default_rng(0)
DEPTHS = {"plain": 131, "parted": 20_011}


def floats(shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def columns(x: Any) -> Any:
    return np.asfortranarray(x)


def spread(x: Any) -> Any:
    """The same elements, none beside another, backwards in memory."""
    room = np.zeros((x.shape[0], 2 * x.shape[1]), x.dtype)
    room[::-1, ::-2] = x
    return room[::-1, ::-2]


def close(found: Any, a: Any, b: Any, rest: Any = 0.0, scale: float = 1.0) -> None:
    """Asserts that the result is as near as `gemm` promises for `scale` ``a @ b``, and the rest."""
    wide = a.astype(np.float64), b.astype(np.float64)
    wanted = scale * (wide[0] @ wide[1]) + rest
    size = abs(scale) * (np.abs(wide[0]) @ np.abs(wide[1])) + np.abs(rest)
    unit = float(np.finfo(found.dtype).eps) / 2
    assert found.shape == wanted.shape
    assert np.all(np.abs(found - wanted) <= 4 * (a.shape[1] + 1) * unit * size)


@pytest.mark.parametrize("extents", [(1, 1), (1, 37), (5, 1), (127, 131), (16, 20_011)], ids=str)
@pytest.mark.parametrize("laid", [np.ascontiguousarray, columns, spread])
def test_rows_and_columns(device: Device, extents: tuple[int, int], laid: Any) -> None:
    rows, k = extents
    matrix, vector = floats((rows, k)), floats((k, 1))
    a, x = laid(matrix), laid(vector)
    ours = device.from_numpy
    close(portable.to_numpy(linalg.gemm(ours(a), ours(x))), matrix, vector)
    b, y = laid(matrix.T), laid(vector.T)
    close(portable.to_numpy(linalg.gemm(ours(y), ours(b))), vector.T, matrix.T)


@pytest.mark.parametrize("k", DEPTHS.values(), ids=DEPTHS)
@pytest.mark.parametrize("laid", [np.ascontiguousarray, columns])
def test_what_is_done_to_sums(device: Device, k: int, laid: Any) -> None:
    a, b, c, bias = floats((1, k)), laid(floats((k, 37))), floats((1, 37)), floats((37,))
    x, y, z, w = map(device.from_numpy, (a, b, c, bias))
    rest = 0.5 * c.astype(np.float64) + bias
    found = linalg.gemm(x, y, alpha=-2, beta=0.5, c=z, bias=w)
    close(portable.to_numpy(found), a, b, rest, -2)
    raised = linalg.gemm(x, y, alpha=-2, beta=0.5, c=z, bias=w, activation="relu")
    np.testing.assert_array_equal(
        portable.to_numpy(raised), np.maximum(portable.to_numpy(found), 0)
    )
    column = linalg.gemm(y.T, x.T, alpha=-2, beta=0.5, c=z.T, bias=device.from_numpy(bias[:, None]))
    close(portable.to_numpy(column), b.T, a.T, rest.T, -2)
    linalg.gemm(x, y, beta=0.5, c=z, out=z)
    close(portable.to_numpy(z), a, b, 0.5 * c.astype(np.float64))


def test_results_that_are_given(device: Device) -> None:
    a, b = floats((37, 29)), floats((29, 1))
    for laid in (np.ascontiguousarray, columns):
        x, y = device.from_numpy(laid(a)), device.from_numpy(b)
        room = device.from_numpy(np.zeros((37, 2), np.float32))
        linalg.gemm(x, y, alpha=3, out=room[:, 1:])
        close(portable.to_numpy(room)[:, 1:], a, b, scale=3)
        assert not portable.to_numpy(room)[:, 0].any()
        line = device.from_numpy(np.zeros((1, 74), np.float32))
        linalg.gemm(y.T, x.T, out=line[:, ::2])
        close(portable.to_numpy(line)[:, ::2], b.T, a.T)
        assert not portable.to_numpy(line)[:, 1::2].any()


@pytest.mark.parametrize("laid", [np.ascontiguousarray, columns])
def test_what_is_not_finite(device: Device, laid: Any) -> None:
    """Neither spreads to other rows, also where the last ones are read again."""
    a, b = floats((19, 33)), floats((33, 1))
    a[3, 32], a[18, 0], a[7, 5], b[6] = np.nan, np.inf, -np.inf, 0
    c = device.from_numpy(np.full((19, 1), np.nan, np.float32))
    found = linalg.gemm(device.from_numpy(laid(a)), device.from_numpy(b), c=c)
    with np.errstate(invalid="ignore"):
        wanted = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(portable.to_numpy(found), wanted, 1e-4, 1e-4)


@pytest.mark.parametrize("kind", ["float64", "float16", "bfloat16", "float8_e4m3fn", "int8"])
def test_other_types(device: Device, kind: str) -> None:
    if kind == "float64" and not device.capabilities.float64:
        pytest.skip("no double precision")
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = np.dtype(getattr(ml_dtypes, kind, kind))
    a = (RNG.integers(-8, 9, (21, 35)) / (1 if kind == "int8" else 4)).astype(dtype)
    b = (RNG.integers(-8, 9, (35, 1)) / (1 if kind == "int8" else 4)).astype(dtype)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    for laid in (np.ascontiguousarray, columns):
        x, y = device.from_numpy(laid(a)), device.from_numpy(b)
        for found in (linalg.gemm(x, y), linalg.gemm(y.T, x.T).T):
            result = portable.to_numpy(found)
            np.testing.assert_array_equal(result, wanted.astype(result.dtype))


def test_nothing_to_sum(device: Device) -> None:
    a, b, c = floats((5, 0)), floats((0, 1)), floats((5, 1))
    x, y, z = map(device.from_numpy, (a, b, c))
    np.testing.assert_array_equal(portable.to_numpy(linalg.gemm(x, y, beta=2, c=z)), 2 * c)
    assert linalg.gemm(y.T, x[:0].T).shape == (1, 0)


def test_how_products_are_shared() -> None:
    alone = replace(load("intel-cpu").capabilities, compute_units=2)
    crowd = replace(alone, single_work_items=False)

    def shared(shape: tuple[int, ...], k: int, a: bool = False, b: bool = False) -> Any:
        return by_vector_for(alone, float32, shape, k, (a, b))

    assert shared((100, 1), 50)[0].along
    assert not shared((100, 1), 50, a=True)[0].along
    assert not shared((1, 100), 50)[0].along
    assert shared((1, 100), 50, b=True)[0].along
    assert shared((1, 1), 50, a=True)[0].along
    assert shared((1, 1), 10**6)[1] > 1
    for shape, k in (((2, 100), 50), ((3, 1, 100), 50), ((1, 100), 0)):
        assert shared(shape, k) is None
    assert by_vector_for(crowd, float32, (1, 100), 50, (False, False)) is None
