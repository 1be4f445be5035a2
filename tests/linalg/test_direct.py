"""Dense matrices reduced straight to bidiagonal form, on every device."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import portable
from portable import dtypes
from portable.backend import Device
from portable.linalg import svdvals
from portable.linalg.singular_values.direct_kernels import DirectShape
from portable.linalg.singular_values.svdvals import Asked, Direct, direct_layout, directly
from portable.sim import checks
from tests.linalg.matrices import TOLERANCE, matrices
from tests.support.compilers import CUDA

LAYOUTS = {
    "an item": Direct(DirectShape(lanes=4, rows=4, team=1, teams=1), 1),
    "a workgroup": Direct(DirectShape(lanes=2, rows=2, team=4, teams=3), 1),
    "a launch a column": Direct(DirectShape(lanes=1, rows=2, team=4, teams=2), 3),
}


def random_matrix(m: int, n: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(100 * m + n).standard_normal((m, n)).astype(dtype)


def check(a: np.ndarray, found: np.ndarray) -> None:
    reference = np.linalg.svd(a.astype(np.float64), compute_uv=False)
    assert found.shape == reference.shape
    assert np.all(np.diff(found) <= 0)
    room = TOLERANCE[dtypes.dtype(a.dtype).register.name]
    assert np.max(np.abs(found - reference)) <= room * np.max(reference)


def laid_out(device: Device, a: np.ndarray, layout: Direct, **options: Any) -> np.ndarray:
    with portable.use(device.name):
        values = device.empty((1, min(a.shape)), dtypes.dtype(a.dtype).register)
        directly(Asked(device, device.from_numpy(a), values, **options), layout)
        return device.to_numpy(values)[0]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (1, 5), (9, 4), (7, 11), (13, 13)], ids=str)
def test_layouts_are_right_and_free_of_races(shape: tuple[int, int], layout: str) -> None:
    a = random_matrix(*shape, "float32")
    with checks(seed=sum(shape), resident=2):
        check(a, laid_out(portable.device("simulator"), a, LAYOUTS[layout]))


@pytest.mark.parametrize(
    ("name", "dtype"), [*((name, "float32") for name in matrices(7)), ("graded", "float64")]
)
def test_matrices_of_every_kind(device: Device, name: str, dtype: str) -> None:
    a = matrices(7)[name].astype(dtype)
    layout = direct_layout(7, 7, dtypes.dtype(dtype), device.capabilities)
    assert layout is not None
    check(a, laid_out(device, a, layout))


@pytest.mark.needs_compiler
@pytest.mark.parametrize("n", [70, 150])
def test_calls_for_one_size_follow_each_other(device: Device, n: int) -> None:
    """On a GPU the first one is recorded, later ones are replayed."""
    given = [random_matrix(n, n, "float32") + i for i in range(4)]
    with portable.use(device.name):
        found = [svdvals(device.from_numpy(a)) for a in given]
    for a, values in zip(given, found, strict=True):
        check(a, device.to_numpy(values))


@pytest.mark.needs_processor
def test_threads_do_not_meet() -> None:
    given = [random_matrix(65, 65, "float32") + i for i in range(12)]
    with ThreadPoolExecutor(4) as pool:
        for a, values in zip(given, pool.map(svdvals, given), strict=True):
            check(a, values)


def test_nothing_is_copied_from_the_host(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph that a user has recorded would do so again, when nothing is there any more."""
    a = random_matrix(11, 10, "float32")
    layout = direct_layout(11, 10, dtypes.float32, device.capabilities)
    assert layout is not None
    with portable.use(device.name):
        given, values = device.from_numpy(a), device.empty((1, 10), dtypes.float32)
        with monkeypatch.context() as refusing:
            refusing.setattr(type(device), "from_numpy", None)
            directly(Asked(device, given, values, check_finite=False), layout)
        check(a, device.to_numpy(values)[0])


def test_progress_tells_of_every_stage(device: Device) -> None:
    told: list[tuple[str, float]] = []
    a = random_matrix(9, 9, "float32")
    layout = direct_layout(9, 9, dtypes.float32, device.capabilities)
    assert layout is not None
    laid_out(device, a, layout, progress=lambda stage, done: told.append((stage, done)))
    assert told == [("band", 1), ("bidiagonal", 1), ("values", 1)]


@pytest.mark.needs_processor
def test_large_and_tall_matrices_go_by_way_of_a_band() -> None:
    can = portable.device("cpu").capabilities
    assert direct_layout(200, 200, dtypes.float64, can) is not None
    assert direct_layout(4000, 4000, dtypes.float32, can) is None
    assert direct_layout(9000, 100, dtypes.float32, can) is None


def test_a_launch_a_column_only_where_launches_are_replayed() -> None:
    replays = replace(CUDA, replays=True)
    replayed = direct_layout(500, 500, dtypes.float64, replays)
    assert replayed is not None
    assert replayed.groups > 1
    assert direct_layout(800, 800, dtypes.float64, replays) is None
    one_by_one = replace(CUDA, replays=False)
    assert direct_layout(500, 500, dtypes.float32, one_by_one) is None
    alone = direct_layout(128, 128, dtypes.float32, one_by_one)
    assert alone is not None
    assert alone.groups == 1
