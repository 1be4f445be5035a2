"""Matrix fragments: products of tiles and of fragments, scopes, shapes, elements, regions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend import Device
from tests.support.launch import run, run_on_views

F16, F32, F64 = np.float16, np.float32, np.float64


@pt.kernel
def product(alpha, a, b, out, *, BM, BN, BK, VALID):
    """A workgroup per tile of the result, the way GEMM is written."""
    m, n, k = out.shape[0], out.shape[1], a.shape[1]
    row, column = kl.group_id(1) * BM, kl.group_id(0) * BN
    tile_a = kl.local((2, BM, BK), a.dtype)
    tile_b = kl.local((2, BK, BN), b.dtype)
    acc = kl.matrix((BM, BN), kl.accumulator(a.dtype), scope="workgroup")
    acc.fill(0)
    for step in range(kl.cdiv(k, BK)):
        slot, start = step % 2, step * BK
        kl.copy_async(tile_a[slot], a[row : row + BM, start : start + BK])
        kl.copy_async(tile_b[slot], b[start : start + BK, column : column + BN])
        kl.copy_commit()
        kl.copy_wait(0)
        kl.barrier()
        if VALID:
            kl.mma(acc, tile_a[slot], tile_b[slot], valid=(m - row, n - column, k - start))
        else:
            kl.mma(acc, tile_a[slot], tile_b[slot])
    for i, j, value in kl.elements(acc):
        if row + i < m and column + j < n:
            out[row + i, column + j] = alpha * value


def _pair(m: int, n: int, k: int, dtype: Any) -> tuple[Any, Any]:
    """Small whole numbers: every sum is exact, whatever its order."""
    rng = np.random.default_rng(m + 10 * n + 100 * k)
    a, b = (rng.integers(-3, 4, shape).astype(dtype) for shape in ((m, k), (k, n)))
    return a, b


def _need(device: Device, dtype: Any, workgroup: tuple[int, ...]) -> None:
    if dtype is F64 and not device.capabilities.float64:
        pytest.skip("the device lacks double precision")
    if int(np.prod(workgroup)) > device.capabilities.max_workgroup:
        pytest.skip("the workgroup is too large for the device")


def _exact(a: Any, b: Any) -> Any:
    return a.astype(F64) @ b.astype(F64)


TILES = {
    "even": (32, 64, 16),
    "flat": (8, 128, 8),
    "tall": (72, 16, 24),
    "ragged": (13, 7, 5),
    "single": (1, 1, 1),
    "row": (1, 33, 4),
}


def _product_cases() -> list[Any]:
    """Every tile in single precision; the others, and an odd workgroup, where something differs."""
    cases = [(F32, tile, group) for tile in TILES for group in ((1,), (16, 4))]
    some = ("even", "ragged")
    cases += [(F32, tile, (5, 3)) for tile in some]
    cases += [(t, tile, group) for t in (F16, F64) for tile in some for group in ((1,), (16, 4))]
    return [pytest.param(*c, id=f"{c[0].__name__}-{c[1]}-{c[2]}") for c in cases]


@pytest.mark.parametrize(("dtype", "tile", "workgroup"), _product_cases())
def test_products_of_tiles(
    device: Device, dtype: Any, tile: str, workgroup: tuple[int, ...]
) -> None:
    _need(device, dtype, workgroup)
    bm, bn, bk = TILES[tile]
    m, n, k = bm + bm // 2 + 1, 2 * bn, 2 * bk + 1
    a, b = _pair(m, n, k, dtype)
    launcher = product[pt.groups(-(-n // bn), -(-m // bm)), workgroup]
    sizes = {"BM": bm, "BN": bn, "BK": bk}
    sizes["VALID"] = tile != "flat"
    *_, found = run(device, launcher, 2.0, a, b, np.zeros((m, n), dtype), **sizes)
    np.testing.assert_array_equal(found, 2 * _exact(a, b))


def _turned(x: Any) -> Any:
    return x.transpose() if hasattr(x, "transpose") else x.T


def _same(x: Any) -> Any:
    return x


@pytest.mark.parametrize("workgroup", [(1,), (16, 2)], ids=str)
@pytest.mark.parametrize("dtype", [F16, F32])
@pytest.mark.parametrize("shape", [(33, 65, 17)], ids=str)
@pytest.mark.parametrize("turned", ["a", "b", "both"])
def test_operands_of_any_strides(
    device: Device,
    turned: str,
    shape: tuple[int, int, int],
    dtype: Any,
    workgroup: tuple[int, ...],
) -> None:
    _need(device, dtype, workgroup)
    m, n, k = shape
    a, b = _pair(m, n, k, dtype)
    launcher = product[pt.groups(-(-n // 32), -(-m // 32)), workgroup]

    turn_a, turn_b = turned in ("a", "both"), turned in ("b", "both")
    stored = (a.T.copy() if turn_a else a, b.T.copy() if turn_b else b)
    arrays = (1.0, *stored, np.zeros((m, n), dtype))
    views = [None, _turned if turn_a else _same, _turned if turn_b else _same, _same]
    constants = {"BM": 32, "BN": 32, "BK": 16, "VALID": True}
    *_, found = run_on_views(device, launcher, arrays, views, **constants)
    np.testing.assert_array_equal(found, _exact(a, b))


@pt.function
def wave(value, row, column, step):
    return value + step * row + column


@pt.function
def scaled(value, factor):
    return factor * value


@pt.function
def less(value, other):
    return value - other


@pt.kernel
def fragments(a, b, c, out, seen, *, M, N, K, SCOPE):
    """Operands in fragments: each scope's first member works on the whole."""
    left = kl.matrix((M, K), a.dtype, scope=SCOPE, use="a")
    right = kl.matrix((K, N), b.dtype, scope=SCOPE, use="b")
    acc = kl.matrix((M, N), kl.accumulator(a.dtype), scope=SCOPE)
    left.load(a[0:M, 0:K])
    right.load(b[0:K, 0:N])
    acc.load(c[0:M, 0:N])
    kl.mma(acc, left, right)
    acc.map(scaled, 2)
    acc.map(wave, M * 10)
    addend = kl.matrix((M, N), kl.accumulator(a.dtype), scope=SCOPE)
    addend.load(c[0:M, 0:N])
    acc.map(less, addend)
    acc.store(out[1 : M + 1, 2 : N + 2])
    for i, k, value in kl.elements(left):
        seen[i, k] = 2 * value


SHAPES = {"even": (16, 16, 8), "ragged": (5, 9, 3), "one": (1, 1, 1)}


FRAGMENTS = [(F32, "even"), (F32, "ragged"), (F32, "one"), (F16, "ragged"), (F64, "ragged")]


@pytest.mark.parametrize("scope", ["work_item", "sub_group", "workgroup"])
@pytest.mark.parametrize(("dtype", "shape"), FRAGMENTS)
def test_fragments_as_operands_and_regions_beyond_the_edges(
    device: Device, dtype: Any, shape: str, scope: str
) -> None:
    """The source ends before the fragment does: zeros are read, and nothing is written there."""
    items = {
        "work_item": 1,
        "sub_group": device.capabilities.sub_group_size,
        "workgroup": 16,
    }[scope]
    _need(device, dtype, (items,))
    m, n, k = SHAPES[shape]
    a, b = _pair(m, n, k, dtype)
    c = np.ones((max(1, m - 1), n), dtype)
    out, seen = np.full((m, n + 1), 77, dtype), np.zeros((m, k), dtype)
    launcher = fragments[pt.groups(1), items]
    *_, out, seen = run(device, launcher, a, b, c, out, seen, M=m, N=n, K=k, SCOPE=scope)
    padded = np.zeros((m, n))
    padded[: c.shape[0]] = c
    row, column = np.indices((m, n))
    want = np.full((m, n + 1), 77.0)
    whole = 2 * (padded + _exact(a, b)) + 10 * m * row + column - padded
    want[1:, 2:] = whole[: m - 1, : n - 1]
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(seen, 2 * a)


@pt.kernel
def touched(x, out, *, M, N, K):
    """An operand tile that work-items write by themselves, and of which a part is used."""
    tile = kl.local((M + 2, K + 1), x.dtype)
    other = kl.local((K, N), x.dtype)
    acc = kl.matrix((M, N), kl.accumulator(x.dtype))
    items = kl.local_size(0)
    for at in range(kl.local_id(0), (M + 2) * (K + 1), items):
        tile[at // (K + 1), at % (K + 1)] = x[at // (K + 1), at % (K + 1)] + 1
    for at in range(kl.local_id(0), K * N, items):
        other[at // N, at % N] = at % 5
    kl.barrier()
    acc.fill(1)
    kl.mma(acc, tile[2:, 1:], other)
    acc.store(out[0:M, 0:N])


@pytest.mark.parametrize("items", [1, 8, 32])
@pytest.mark.parametrize("dtype", [F16, F32])
def test_tiles_that_work_items_write(device: Device, dtype: Any, items: int) -> None:
    m, n, k = 12, 10, 6
    x = np.arange((m + 2) * (k + 1)).reshape(m + 2, k + 1).astype(dtype) % 7
    launcher = touched[pt.groups(1), items]
    _, found = run(device, launcher, x, np.zeros((m, n), dtype), M=m, N=n, K=k)
    other = (np.arange(k * n) % 5).reshape(k, n)
    np.testing.assert_array_equal(found, (x + 1)[2:, 1:].astype(F64) @ other + 1)


@pt.kernel
def square(x, out, *, N, TURN):
    """One tile as both operands, or its transpose as one of them."""
    tile = kl.local((N, N), x.dtype)
    acc = kl.matrix((N, N), kl.accumulator(x.dtype))
    acc.fill(0)
    kl.copy(tile, x[0:N, 0:N])
    kl.barrier()
    if TURN:
        kl.mma(acc, tile, tile.T)
    else:
        kl.mma(acc, tile, tile)
    acc.store(out[0:N, 0:N])


@pytest.mark.parametrize("turn", [False, True])
@pytest.mark.parametrize("items", [1, 16])
def test_one_tile_as_both_operands(device: Device, items: int, turn: bool) -> None:
    x, _ = _pair(16, 16, 16, F32)
    launcher = square[pt.groups(1), items]
    _, found = run(device, launcher, x, np.zeros((16, 16), F32), N=16, TURN=turn)
    np.testing.assert_array_equal(found, x @ (x.T if turn else x))


@pt.function
def bent(value, row, column, factor):
    return kl.maximum(factor * value - 1, kl.where(row % 3 == 0, value, -value))


@pt.kernel
def sums(a, b, out, seen, top, left, *, BM, BN, BK):
    """Sums that begin with a number, grow in one loop, are changed and stored anywhere."""
    tile_a, tile_b = kl.local((BM, BK), a.dtype), kl.local((BK, BN), b.dtype)
    first = kl.matrix((BM, BN), kl.accumulator(a.dtype), scope="workgroup")
    again = kl.matrix((BM, BN), kl.accumulator(a.dtype), scope="workgroup")
    held = kl.local((BM, BN), kl.accumulator(a.dtype))
    first.fill(3)
    again.fill(-1)
    for start in range(0, a.shape[1], BK):
        kl.copy(tile_a, a[0:BM, start : start + BK])
        kl.copy(tile_b, b[start : start + BK, 0:BN])
        kl.barrier()
        kl.mma(first, tile_a, tile_b)
        kl.barrier()
    first.map(bent, 0.5)
    first.store(out[top : top + BM, left : left + BN])
    for start in range(0, a.shape[1], BK):
        kl.copy(tile_a, a[0:BM, start : start + BK])
        kl.copy(tile_b, b[start : start + BK, 0:BN])
        kl.barrier()
        kl.mma(again, tile_a, tile_b)
        kl.barrier()
    again.store(held[0:BM, 0:BN])
    kl.barrier()
    for i in range(kl.local_linear_id(), BM * BN, kl.local_size(0)):
        seen[i // BN, i % BN] = held[i // BN, i % BN]


@pytest.mark.parametrize(("dtype", "bm", "bn"), [(F32, 13, 37), (F32, 24, 64), (F16, 13, 37)])
def test_sums_of_one_loop(device: Device, dtype: Any, bm: int, bn: int) -> None:
    """Of no, one and several rounds, wholly inside what they are stored to and across its edges."""
    launcher = sums[pt.groups(1), 1]
    for depth, top, left in ((0, 0, 0), (3, -2, 5), (8, 0, 0), (19, 4, -3)):
        a, b = _pair(bm, bn, depth, dtype)
        out, seen = np.full((bm, bn + 2), 77, dtype), np.zeros((bm, bn), F32)
        sizes = {"BM": bm, "BN": bn, "BK": 8}
        *_, out, seen = run(device, launcher, a, b, out, seen, top, left, **sizes)
        total = 3 + _exact(a, b)
        other = np.where(np.arange(bm)[:, None] % 3 == 0, total, -total)
        whole = np.full((3 * bm, 3 * bn), 77.0)
        whole[bm + top : 2 * bm + top, bn + left : 2 * bn + left] = np.maximum(total / 2 - 1, other)
        np.testing.assert_array_equal(out, whole[bm : 2 * bm, bn : 2 * bn + 2])
        np.testing.assert_array_equal(seen, _exact(a, b) - 1)
