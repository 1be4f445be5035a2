"""Banded matrices reduced to bidiagonal form, on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse

import portable
from portable.backend import Device
from portable.dtypes import dtype as dtype_of
from portable.errors import DTypeError, LaunchError, ShapeError
from portable.linalg import band_to_bidiagonal
from portable.linalg.bands.band import chase
from portable.linalg.bands.plan import Plan, Stage
from portable.linalg.bands.shapes import plan_for
from portable.linalg.bands.tiles import tile_shape
from portable.linalg.base.magnitude import largest_magnitude
from portable.sim import SCHEDULES, checks
from tests.linalg.matrices import TOLERANCE, dense, matrices
from tests.support.lapack import bdsqr

DTYPES = ["float16", "float32", "float64"]


def workgroups_may_wait(device: Device) -> bool:
    """Whether one launch can hold all sweeps."""
    can = device.capabilities
    return can.forward_progress and can.memory_orders == "acq_rel"


def banded(a: np.ndarray, u: int, dtype: str) -> np.ndarray:
    """The diagonal-ordered form, NaN where no element is."""
    n = a.shape[0]
    ab = np.full((u + 1, n), np.nan, dtype)
    for k in range(min(u, n - 1) + 1):
        ab[u - k, k:] = np.diagonal(a, k)
    return ab


def random_band(n: int, u: int, dtype: str) -> np.ndarray:
    a = np.random.default_rng(100 * n + u).standard_normal((n, n))
    return banded(a, u, dtype)


def check(ab: np.ndarray, d: np.ndarray, e: np.ndarray, bandwidth: int | None = None) -> None:
    u = ab.shape[0] - 1
    register = dtype_of(ab.dtype).register.numpy
    assert d.dtype == e.dtype == register
    a = dense(ab.astype(np.float64))
    reference = scipy.linalg.svdvals(a)
    found = bdsqr(d, e)
    room = TOLERANCE[ab.dtype.name] * max(1, 8 / max(bandwidth or u, 1))
    assert np.max(np.abs(found - reference), initial=0) <= room * np.max(reference, initial=0)


def reduced(device: Device, ab: np.ndarray, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    with portable.use(device.name):
        given = device.from_numpy(ab)
        d, e = band_to_bidiagonal(given, **options)
        np.testing.assert_array_equal(device.to_numpy(given), ab)
    assert device.owns(d)
    assert device.owns(e)
    return device.to_numpy(d), device.to_numpy(e)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("n", "u"), [(1, 0), (1, 3), (2, 1), (3, 2), (4, 2), (5, 9), (12, 3), (21, 8)], ids=str
)
def test_random_bands(device: Device, n: int, u: int, dtype: str) -> None:
    ab = random_band(n, u, dtype)
    check(ab, *reduced(device, ab))


@pytest.mark.needs_compiler
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "u"), [(200, 3), (300, 32), (130, 129), (300, 100)], ids=str)
def test_larger_bands(device: Device, n: int, u: int, dtype: str) -> None:
    ab = random_band(n, u, dtype)
    check(ab, *reduced(device, ab))


def schatten(diagonals: dict[int, np.ndarray]) -> np.ndarray:
    """The sums of the singular values' second and fourth powers."""
    n = diagonals[0].size
    placed = [diagonals[k].astype(np.float64) for k in diagonals]
    a = scipy.sparse.diags_array(placed, offsets=list(diagonals), shape=(n, n)).tocsr()
    return np.array([(a**2).sum(), ((a @ a.T) ** 2).sum()])


@pytest.mark.needs_compiler
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("u", [9, 32, 70])
def test_large_matrices_keep_their_norms(device: Device, u: int, dtype: str) -> None:
    gpu = device.capabilities.kind == "gpu"
    if not gpu and (u > 9 or dtype != "float32"):
        pytest.skip(f"{device.name} takes long")
    if gpu and not workgroups_may_wait(device):
        pytest.skip(f"{device.name} takes a launch for each wave")
    n = 20000 if gpu else 4200
    ab = np.random.default_rng(1).standard_normal((u + 1, n)).astype(dtype)
    d, e = reduced(device, ab)
    wanted = schatten({k: ab[u - k, k:] for k in range(u + 1)})
    np.testing.assert_allclose(schatten({0: d, 1: e}), wanted, rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", list(matrices()))
def test_matrices_of_every_kind(device: Device, name: str, dtype: str) -> None:
    ab = banded(matrices()[name], 4, dtype)
    d, e = reduced(device, ab)
    check(ab, d, e)
    if name in ("diagonal", "bidiagonal", "zero"):
        np.testing.assert_array_equal(d, np.diagonal(dense(ab)))
        np.testing.assert_array_equal(e, np.diagonal(dense(ab), 1))


@pytest.mark.parametrize("scale", [1e-4, 1, 2000])
def test_half_precision_neither_overflows_nor_vanishes(device: Device, scale: float) -> None:
    ab = (scale * np.ones((5, 16))).astype(np.float16)
    check(ab, *reduced(device, ab))


def panels(size: int, before: int, after: int) -> Stage:
    """A band of so many panels made narrower, by sub-groups of `size` work-items."""
    count = {1: 2, 8: 4, 16: 4}.get(size, 8)
    groups = {"items": 3 * size, "parts": 3, "sweeps": count}
    return Stage(before * count, (before - after) * count + 1, "panels", **groups)


def stages(name: str, device: Device) -> tuple[Stage, ...]:
    """Bands of five superdiagonals in a residency."""
    sub_group = device.capabilities.sub_group_size
    tile = tile_shape(8, sub_group, tall=True)
    tall = tile.order if tile else 8
    c = panels(sub_group, 4, 2).sweeps
    beside: dict[str, Any] = {"residency": "items", "items": 16}
    blocks: dict[str, Any] = {"residency": "ring", "items": 2 * sub_group}
    found = {
        "vectors": [Stage(8, 8, "vectors", lanes=4, rows=2, sweeps=3, every=2)],
        "products": [
            Stage(12, 9, "products", lanes=2, rows=4, sweeps=2),
            Stage(4, 4, "vectors", lanes=4, sweeps=2),
        ],
        "products of half a band": [
            Stage(12, 5, "products", lanes=4, rows=4, sweeps=3),
            Stage(8, 8, "vectors", lanes=4, rows=2),
        ],
        "items": [Stage(5, 5, "items", items=12)],
        "items in turn": [Stage(5, 5, "items", items=4)],
        "steps": [Stage(5, 3, "items", items=8), Stage(3, 3, "items", items=8)],
        "panels and steps": [
            panels(sub_group, 4, 2),
            Stage(2 * c, c + 1, **beside),
            Stage(c, c, **beside),
        ],
        "panels": [panels(sub_group, 4, 2), Stage(2 * c, 2 * c, **beside)],
        "panels of half a band": [panels(sub_group, 3, 1), Stage(c, c, **beside)],
        "ring": [Stage(8, 8, sweeps=2, **blocks)],
        "ring of one": [Stage(8, 8, **blocks)],
        "direct": [Stage(tall, tall, "direct", items=2 * sub_group)],
        "direct and side by side": [Stage(tall, tall, "direct", items=2 * sub_group, sweeps=2)],
        "steps and ring": [
            Stage(12, 5, "items", items=8),
            Stage(8, 8, sweeps=3, **blocks),
        ],
    }
    return tuple(found[name])


def band_for(plan: Plan, dtype: str) -> np.ndarray:
    """A band of which the first stage takes something away, for two hops of its sweeps."""
    b = plan.stages[0].bandwidth
    return random_band(2 * b + 3, b - 1, dtype) if b > 8 else random_band(23, 5, dtype)


NAMES = [
    *("vectors", "items", "items in turn", "steps", "steps and ring", "ring", "ring of one"),
    *("panels", "panels of half a band", "products", "products of half a band"),
    *("direct", "direct and side by side"),
]


def planned(device: Device, ab: np.ndarray, plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    register = dtype_of(ab.dtype).register
    n = ab.shape[1]
    with portable.use(device.name):
        given = device.from_numpy(ab)
        out = device.empty((n,), register), device.empty((n - 1,), register)
        chase(device, given, largest_magnitude(device, given, band=True), out, plan)
        d, e = (device.to_numpy(x) for x in out)
    return d, e


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("vectors", "float32"),
        ("items in turn", "float32"),
        ("steps and ring", "float32"),
        ("items", "float64"),
        ("panels", "float64"),
        ("products", "float64"),
        ("ring", "float16"),
        ("ring", "float64"),
        ("direct", "float32"),
    ],
)
def test_each_residency_on_each_device(device: Device, name: str, dtype: str) -> None:
    if not workgroups_may_wait(device):
        pytest.skip(f"{device.name} lacks forward progress or ordered atomics")
    copies = device.capabilities.async_copy
    if ("ring" in name and "bulk" not in copies) or ("direct" in name and not copies):
        pytest.skip(f"{device.name} has no bulk copies, nor sub-groups that wait for each other")
    kind = dtype_of(dtype)
    alone = name in ("vectors", "products")
    plan = Plan(stages(name, device), True, kind.register if alone else kind)
    ab = band_for(plan, dtype)
    check(ab, *planned(device, ab, plan))


@pytest.mark.parametrize("name", ["items in turn", "panels and steps"])
def test_each_residency_in_waves(device: Device, name: str) -> None:
    plan = Plan(stages(name, device), False, dtype_of("float32"))
    ab = band_for(plan, "float32")
    check(ab, *planned(device, ab, plan))


@pytest.mark.parametrize("schedule", ["held", "newest", "round_robin"])
@pytest.mark.parametrize("name", NAMES)
def test_packs_are_free_of_races_in_any_order(name: str, schedule: str) -> None:
    device = portable.device("simulator")
    plan = Plan(stages(name, device), True, dtype_of("float32"))
    wide = "panels" in name or "products" in name
    ab = band_for(plan, "float32") if wide else random_band(14, 5, "float32")
    with checks(schedule=schedule, resident=3):
        check(ab, *planned(device, ab, plan))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_packs_of_more_sweeps_than_a_block_has_columns(schedule: str) -> None:
    device = portable.device("simulator")
    plan = Plan((Stage(4, 4, "ring", items=16, sweeps=8),), True, dtype_of("float64"))
    ab = random_band(31, 3, "float64")
    with checks(schedule=schedule, resident=3):
        check(ab, *planned(device, ab, plan))


def test_the_ring_of_an_h200_is_free_of_races() -> None:
    device = portable.device("simulator:h200")
    stage = plan_for(7, 30, dtype_of("float32"), device.capabilities).stages[-1]
    assert (stage.residency, stage.bandwidth, stage.items) == ("ring", 8, 64)
    ab = random_band(30, 7, "float32")
    with checks(schedule="held", resident=3):
        check(ab, *reduced(device, ab))


def test_takes_views_and_writes_to_out(device: Device) -> None:
    with portable.use(device.name):
        d, e = device.empty((9,), portable.float32), device.empty((8,), portable.float32)
        ab = random_band(9, 3, "float32")
        result = band_to_bidiagonal(device.from_numpy(ab), out=(d, e))
    assert result[0] is d
    assert result[1] is e
    check(ab, device.to_numpy(d), device.to_numpy(e))


@pytest.mark.needs_processor
def test_any_strides() -> None:
    ab = random_band(9, 3, "float64")
    transposed = np.ascontiguousarray(ab.T).T
    check(ab, *band_to_bidiagonal(transposed))


def test_nothing(device: Device) -> None:
    d, e = reduced(device, np.zeros((3, 0), np.float32))
    assert d.shape == (0,)
    assert e.shape == (0,)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_refuses_what_is_not_finite(device: Device, bad: float) -> None:
    ab = random_band(9, 3, "float32")
    ab[1, 7] = bad
    with pytest.raises(ValueError, match="NaN" if np.isnan(bad) else "infinity"):
        reduced(device, ab)


def test_what_belongs_to_no_element_is_not_read(device: Device) -> None:
    ab = random_band(6, 3, "float32")
    assert np.isnan(ab[0, 0])
    check(ab, *reduced(device, ab))


@pytest.mark.needs_processor
def test_refuses_other_shapes_and_dtypes() -> None:
    with pytest.raises(ShapeError, match=r"\(5,\)"):
        band_to_bidiagonal(np.ones(5, np.float32))
    with pytest.raises(ShapeError, match="u >= 0"):
        band_to_bidiagonal(np.ones((0, 5), np.float32))
    with pytest.raises(ShapeError, match="at most"):
        band_to_bidiagonal(np.broadcast_to(np.float32(1), (5000, 5000)))
    with pytest.raises(DTypeError, match="int32"):
        band_to_bidiagonal(np.ones((2, 5), np.int32))
    ab = np.ones((3, 5), np.float32)
    d, e = np.empty(5, np.float32), np.empty(4, np.float32)
    with pytest.raises(ShapeError, match="d has shape"):
        band_to_bidiagonal(ab, out=(e, e))
    with pytest.raises(DTypeError, match="e is float64"):
        band_to_bidiagonal(ab, out=(d, e.astype(float)))
    with pytest.raises(ShapeError, match="overlaps ab"):
        band_to_bidiagonal(ab, out=(ab[0], e))
    with pytest.raises(ShapeError, match="e overlaps d"):
        band_to_bidiagonal(ab, out=(d, d[1:]))
    e.flags.writeable = False
    with pytest.raises(LaunchError, match="e is read-only"):
        band_to_bidiagonal(ab, out=(d, e))
