"""Sums of many numbers stay within their bound: they are added up in chains of bounded length.

A chain as long as an array drifts: of 2^22 equal numbers of single precision by hundreds of units
of the last place, each of which a test here would find.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log2
from typing import Any

import numpy as np
import pytest

import portable
import portable.array as xp
from portable import lang as kl
from portable import primitives
from portable.backend import Device
from portable.linalg import gemm
from portable.linalg.products import launches as gemm_launches
from portable.linalg.products.kernels import keep
from portable.linalg.products.launches import Asked, EpilogueKind, TileLaunch, launches
from portable.primitives.reductions.merging import Merge
from portable.primitives.scans.lookback_kernels import (
    PUBLISHED,
    Strip,
    chained_strip_scan,
)
from tests.support.devices import of_today

ROUND = 1 << 22
FEW = 1 << 17
"""As many as are simulated in a second."""

DATA: dict[str, Callable[[int], Any]] = {
    "constant": lambda n: np.full(n, 0.1),
    "ascending": lambda n: np.arange(n) / n,
    "cancelling": lambda n: np.where(np.arange(n) % 3, 0.1, -0.1) * 0.5 + 1e-3,
}
AXES: dict[str, tuple[tuple[int, ...], Any]] = {
    "whole": ((-1,), None),
    "rows": ((4, -1), 1),
    "columns": ((-1, 4), 0),
    "one column": ((-1, 1), 0),
    "middle": ((2, -1, 4), 1),
    "ends": ((-1, 4, 64), (0, 2)),
}


def extent(device: Device) -> int:
    return FEW if device.interprets else ROUND


def bound(n: int, dtype: Any) -> float:
    """What the docstring of `sum` says, over the sum of sizes."""
    return float((10 + 4 * log2(n)) * np.finfo(dtype).eps)


def typical(dtype: Any) -> float:
    """Equal numbers are rounded all one way, but by less than half a unit on average."""
    return float(40 * np.finfo(dtype).eps)


def wider(given: Any) -> Any:
    """In which sums of so few millions are known to a five-thousandth of what is allowed."""
    if given.dtype.kind == "c":
        return np.complex128
    return np.longdouble if given.dtype == np.float64 else np.float64


def check_sums(found: Any, given: Any, axis: Any, dtype: Any = None) -> None:
    """Holds sums in a dtype against those in more bits."""
    wide = wider(given)
    wanted = given.astype(wide).sum(axis=axis)
    sizes = np.abs(given).astype(wider(given.real)).sum(axis=axis)
    kind = given.real.dtype if dtype is None else dtype
    error = np.abs(portable.to_numpy(found).astype(wide) - wanted)
    assert np.all(error <= min(bound(given.size, kind), typical(kind)) * sizes)


def check_running_totals(found: Any, given: Any, axis: int, dtype: Any = None) -> None:
    """Holds running totals in a dtype against those in more bits; those of nothing are left out."""
    wide = wider(given)
    wanted = given.astype(wide).cumsum(axis=axis)
    sizes = np.abs(given).astype(wider(given.real)).cumsum(axis=axis)
    kind = given.real.dtype if dtype is None else dtype
    error = np.abs(portable.to_numpy(found).astype(wide) - wanted)
    assert np.all(error <= typical(kind) / 2 * sizes)


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("axis", AXES)
def test_single_precision(ours: Device, data: str, axis: str) -> None:
    shape, along = AXES[axis]
    a = DATA[data](extent(ours)).astype(np.float32).reshape(shape)
    x = ours.from_numpy(a)
    check_sums(xp.sum(x, axis=along), a, along)
    count = a.size / xp.sum(x, axis=along).size
    check_sums(xp.mean(x, axis=along) * count, a, along)


@pytest.mark.needs_float64
@pytest.mark.parametrize("axis", ["whole", "columns"])
def test_double_precision(ours: Device, axis: str) -> None:
    shape, along = AXES[axis]
    a = DATA["constant"](extent(ours)).reshape(shape)
    check_sums(xp.sum(ours.from_numpy(a), axis=along), a, along)


@pytest.mark.parametrize("axis", ["whole", "rows", "columns"])
def test_complex_numbers(ours: Device, axis: str) -> None:
    shape, along = AXES[axis]
    a = (DATA["constant"](extent(ours) // 2) * (1 - 3j)).astype(np.complex64).reshape(shape)
    check_sums(xp.sum(ours.from_numpy(a), axis=along), a, along, np.float32)


@pytest.mark.parametrize("axis", ["whole", "columns"])
def test_halves_are_added_up_in_single_precision(ours: Device, axis: str) -> None:
    shape, along = AXES[axis]
    a = (DATA["constant"](extent(ours)) * 0.01).astype(np.float16).reshape(shape)
    found = xp.sum(ours.from_numpy(a), axis=along)
    wanted = a.astype(np.float64).sum(axis=along)
    np.testing.assert_allclose(portable.to_numpy(found), wanted, rtol=2**-11 * 1.01)


def test_every_other_element(ours: Device) -> None:
    a = DATA["constant"](extent(ours)).astype(np.float32)[::2]
    check_sums(xp.sum(ours.from_numpy(a.base)[::2]), a, None)


@pytest.mark.parametrize("data", DATA)
def test_reduce_and_fuse(device: Device, data: str) -> None:
    a = DATA[data](extent(device)).astype(np.float32)
    x = device.from_numpy(a)
    check_sums(primitives.reduce(x), a, None)
    fused = portable.fuse(lambda x: ((x * 2).sum(), x.mean()))
    total, mean = fused(x)
    check_sums(total, 2 * a, None)
    check_sums(portable.to_numpy(mean) * np.float32(a.size), a, None)


def test_fused_columns(device: Device) -> None:
    a = DATA["constant"](extent(device)).astype(np.float32).reshape(-1, 4)
    fused = portable.fuse(lambda x: (x * 2).sum(axis=0))
    check_sums(fused(device.from_numpy(a)), 2 * a, 0)


def test_structs(device: Device) -> None:
    a = DATA["constant"](extent(device) // 8).astype(np.float32)
    x = device.from_numpy(a)

    def both(a: Any, b: Any) -> Any:
        return a[0] + b[0], a[1] + b[1]

    def twice(value: Any) -> Any:
        return value, value

    neutral = np.float32(0), np.float32(0)
    for found in primitives.reduce(x, both, neutral=neutral, each=twice):
        check_sums(found, a, None)


@pytest.mark.parametrize("data", DATA)
def test_products_by_vectors_and_norms(ours: Device, data: str) -> None:
    a = DATA[data](1 << 13 if ours.interprets else ROUND).astype(np.float32)
    x = ours.from_numpy(a)
    check_sums(xp.vecdot(x, x), a.astype(np.float64) ** 2, None, np.float32)
    sizes = np.sum(np.abs(a.astype(np.float64)))
    ones = xp.ones((a.size,), dtype=xp.float32, device=x.device)
    row, column = xp.reshape(x, (1, -1)), xp.reshape(x, (-1, 1))
    for found in (x @ ones, (row @ ones)[0], (ones @ column)[0]):
        error = abs(float(found) - np.sum(a.astype(np.float64)))
        assert error <= bound(a.size, np.float32) * sizes
    wanted = np.sqrt(np.sum(a.astype(np.float64) ** 2))
    assert abs(float(xp.linalg.vector_norm(x)) - wanted) <= bound(a.size, np.float32) * wanted


def test_variance_of_many(ours: Device) -> None:
    a = DATA["ascending"](extent(ours)).astype(np.float32)
    wanted = np.var(a.astype(np.float64))
    assert abs(float(xp.var(ours.from_numpy(a))) - wanted) <= typical(np.float32) * wanted


RUNNING: dict[str, tuple[tuple[int, ...], int]] = {
    "one row": ((-1,), 0),
    "few rows": ((3, -1), 1),
    "rows": ((64, -1), 1),
    "columns": ((-1, 4), 0),
    "many columns": ((-1, 256), 0),
    "one column": ((-1, 1), 0),
    "middle": ((2, -1, 4), 1),
}


def laid_out(a: Any, axis: str) -> tuple[Any, int]:
    """Numbers of single precision in one of these shapes, as many as fill it, and the axis."""
    shape, along = RUNNING[axis]
    count = a.size // -np.prod(shape) * -np.prod(shape)
    return a[:count].astype(np.float32).reshape(shape), along


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("axis", RUNNING)
def test_running_totals(ours: Device, data: str, axis: str) -> None:
    a, along = laid_out(DATA[data](extent(ours)), axis)
    check_running_totals(xp.cumulative_sum(ours.from_numpy(a), axis=along), a, along)


def test_running_totals_of_other_kinds(ours: Device) -> None:
    a = DATA["constant"](extent(ours))
    short = (a * 0.01).astype(np.float16)
    found = xp.cumulative_sum(ours.from_numpy(short), dtype=xp.float32)
    check_running_totals(found, short, 0, np.float32)
    turned = (a * (1 - 3j)).astype(np.complex64)
    check_running_totals(xp.cumulative_sum(ours.from_numpy(turned)), turned, 0, np.float32)
    every_other = a.astype(np.float32)[::2]
    found = xp.cumulative_sum(ours.from_numpy(every_other.base)[::2])
    check_running_totals(found, every_other, 0)


@pytest.mark.needs_float64
def test_running_totals_in_double_precision(ours: Device) -> None:
    """Beside products by the count, since a loop of so many steps drifts in any precision."""
    a = DATA["constant"](extent(ours))
    found = portable.to_numpy(xp.cumulative_sum(ours.from_numpy(a)))
    wanted = np.arange(1, a.size + 1) * a[0].astype(np.longdouble)
    assert np.all(np.abs(found - wanted) <= typical(np.float64) / 2 * wanted)


@pytest.mark.parametrize("inclusive", [True, False])
def test_running_totals_on_every_device(device: Device, inclusive: bool) -> None:
    a = DATA["constant"](extent(device)).astype(np.float32)
    found = portable.to_numpy(primitives.scan(device.from_numpy(a), inclusive=inclusive))
    if not inclusive:
        assert found[0] == 0
        a, found = a[:-1], found[1:]
    check_running_totals(found, a, 0)


@pytest.mark.parametrize("inclusive", [True, False])
def test_running_totals_of_structs(device: Device, inclusive: bool) -> None:
    a = DATA["constant"](extent(device) // 4).astype(np.float32)
    x = device.from_numpy(a)

    def both(a: Any, b: Any) -> Any:
        return a[0] + b[0], a[1] + b[1]

    neutral = np.float32(0), np.float32(0)
    for total in primitives.scan((x, x), both, neutral=neutral, inclusive=inclusive):
        found, given = portable.to_numpy(total), a
        if not inclusive:
            found, given = found[1:], a[:-1]
        check_running_totals(found, given, 0)


@pytest.mark.parametrize("profile", of_today("simulator:h200", "simulator:intel-cpu"))
@pytest.mark.parametrize("axis", RUNNING)
def test_running_totals_as_other_devices_take_them(profile: str, axis: str) -> None:
    a, along = laid_out(np.full(FEW // 2, 0.1), axis)
    with portable.use(profile):
        check_running_totals(primitives.scan(a, axis=along), a, along)


@pytest.mark.needs_forward_progress
def test_strips_of_columns_in_turn(ours: Device) -> None:
    """Far more tiles than are looked at together, each of four rows."""
    length = 1 << 13
    a = np.full((length, 4), 0.1, np.float32)
    strip = Strip(Merge(kl.add, portable.float32, 0), width=4, tall=4, depth=1)
    state = ours.from_numpy(np.zeros(1 + PUBLISHED * length // 4 * 4, np.uint64))
    out = ours.empty(a.shape, portable.float32)
    given, turned = (xp.permute_dims(x, (1, 0)) for x in (ours.from_numpy(a), out))
    chained_strip_scan[2 * 16, 16](given, state, turned, STRIP=strip, SHIFT=0)
    check_running_totals(out, a, 0)


PRODUCTS: dict[str, tuple[int, int, int]] = {
    "few columns": (3, 300_000, 3),
    "a few rows": (10, 1 << 20, 10),
    "tiles": (64, 1 << 17, 64),
    "large tiles": (640, 1 << 13, 640),
}
"""Rows, products of a sum, and columns: more than one of each way on processors."""


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("size", PRODUCTS)
def test_products_with_long_sums(ours: Device, size: str, turned: bool) -> None:
    """Each of equal terms, of which a chain as long would be off by thousands of roundings."""
    m, k, n = PRODUCTS[size]
    if ours.interprets:
        pytest.skip("such sums are not simulated; shorter ones are, below")
    a = xp.full((k, m) if turned else (m, k), 0.1, dtype=xp.float32, device=ours)
    a = xp.permute_dims(a, (1, 0)) if turned else a
    found = portable.to_numpy(a @ xp.full((k, n), 0.1, dtype=xp.float32, device=ours))
    wanted = k * np.longdouble(np.float32(0.1)) ** 2
    assert np.all(np.abs(found - wanted) <= 200 * np.finfo(np.float32).eps * wanted)


def test_slim_products_as_processors_take_them() -> None:
    a = np.full((1 << 13, 3), 0.1, np.float32)
    with portable.use("simulator:intel-cpu"):
        found = portable.to_numpy(gemm(a.T, a))
    wanted = a.shape[0] * np.longdouble(np.float32(0.1)) ** 2
    assert np.all(np.abs(found - wanted) <= typical(np.float32) / 2 * wanted)


def launched(m: int, k: int, n: int, kind: Any) -> TileLaunch:
    """What an H200 does first for a product."""
    h200 = portable.device("simulator:h200")
    constants = {"ACC": kind.register, "ACTIVATION": keep}
    return next(launches(Asked(h200, kind, (m, n), k, "auto", constants, False, EpilogueKind())))


@pytest.mark.parametrize("kind", [kl.f32, kl.f64])
def test_long_sums_are_cut_where_workgroups_share_tiles(kind: Any) -> None:
    """Also those whose last round of tiles would be shared out, and no sum of ordinary length."""
    assert launched(4096, 1 << 16, 4096, kind).parts == 8
    assert launched(2048, 1 << 18, 2048, kind).parts == 32
    assert launched(8192, 1 << 14, 8192, kind).parts == 1
    assert launched(30_000, 1 << 17, 30_000, kind).parts == 8  # no more room than operands take
    assert launched(4096, 1 << 16, 4096, kl.f16).parts == 1
    assert launched(3, 300_000, 3, kind).parts >= 300_000 >> 13


def test_parts_of_long_sums_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm_launches, "_LONGEST_OF_CROWDS", 1 << 7)
    a = np.random.default_rng(3).standard_normal((20, 500)).astype(np.float32)
    with portable.use("simulator:h200"), portable.profile() as profile:
        found = portable.to_numpy(gemm(a, a.T))
    assert {"gemm_tiles", "gemm_sums"} <= {s.entry.name for s in profile.spans}
    np.testing.assert_allclose(found, a.astype(np.float64) @ a.T, atol=1e-4)


def test_bfloat16_is_added_up_in_single_precision(device: Device) -> None:
    """Of 8 bits, so that a chain of them would end where they are too small to count."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    if device.backend == "sycl":
        pytest.skip("dpnp has no arrays of bfloat16")
    a = DATA["constant"](FEW // 4).astype(ml_dtypes.bfloat16)
    with portable.use(device):
        total, upto = primitives.reduce(a), primitives.scan(a, dtype=np.float32)
    wanted = a.astype(np.float64)
    assert abs(float(total) - wanted.sum()) <= 2**-8 * wanted.sum()
    check_running_totals(upto, wanted, 0, np.float32)
