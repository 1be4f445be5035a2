"""Which tiles a product tries first."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import portable
from portable.backend import profiles
from portable.backend.capabilities import Capabilities
from portable.dtypes import DType, float16, float32, float64
from portable.linalg.products.kernels import keep
from portable.linalg.products.launches import Asked, EpilogueKind, launches
from portable.linalg.products.model import Product, predicted
from portable.linalg.products.tuning import candidates, schemes
from tests.support.compilers import CUDA

H200 = replace(
    CUDA,
    matrix_units=CUDA.matrix_units | {"wgmma.f16"},
    async_copy=CUDA.async_copy | {"bulk", "tensor"},
    compute_units=132,
)
PLAIN = replace(H200, matrix_units=frozenset())


def tried(on: Any, dtype: DType, edge: int, algorithm: str = "auto") -> Any:
    device: Any = SimpleNamespace(capabilities=on)
    return candidates(device, dtype, algorithm, (edge, edge, 1))


@pytest.mark.parametrize("edge", [16, 100, 256, 512, 768, 1024, 4096, 20_000])
def test_matrix_units_of_half_precision_are_used_at_any_size(edge: int) -> None:
    """Smaller tiles without them would divide small results among more compute units."""
    assert tried(H200, float16, edge)[0]["UNITS"]


def test_double_precision_takes_them_in_tiles_that_suit_the_size() -> None:
    large, small = (tried(H200, float64, edge)[0] for edge in (4096, 128))
    assert large["UNITS"]
    assert small["UNITS"]
    assert small["BM"] * small["BN"] <= large["BM"] * large["BN"] // 4


def test_rungs_below_matrix_units_take_what_suits_the_size() -> None:
    small = tried(H200, float16, 256, "register")[0]
    assert not small["UNITS"]
    assert small["BM"] * small["BN"] < 64 * 64
    assert tried(PLAIN, float16, 256)[0]["BM"] == small["BM"]


def test_large_results_have_large_tiles_and_small_ones_small() -> None:
    areas = [x["BM"] * x["BN"] for x in (tried(H200, float16, n)[0] for n in (256, 1024, 4096))]
    assert areas == sorted(areas)
    assert areas[0] < areas[-1]


@pytest.mark.parametrize(
    ("size", "parts"),
    [((4096, 4096, 4096), 1), ((16, 4096, 16384), 4), ((64, 64, 64), 1), ((64, 64, 32768), 16)],
)
def test_sums_are_cut_where_tiles_are_too_few(size: tuple[int, int, int], parts: int) -> None:
    device: Any = SimpleNamespace(capabilities=H200)
    found = schemes(device, float32, "auto", Product(*size))
    assert found[0][1] >= parts if parts > 1 else found[0][1] == 1
    assert all(n == 1 for _, n in schemes(device, float32, "pipelined", Product(*size)))


@pytest.mark.parametrize(
    ("kind", "product", "best"),
    [
        # Microseconds on an H200: all choices that took up to 1.1 of the shortest.
        (float16, Product(512, 512, 512), {(64, 64): 3.7}),
        (float16, Product(1024, 1024, 1024), {(64, 128): 6.2}),
        (float16, Product(2048, 2048, 2048), {(128, 256): 25.0, (256, 128): 25.4}),
        (float16, Product(8192, 8192, 256), {(128, 256): 70.9, (256, 128): 75.1}),
        (float16, Product(8192, 8192, 256, biased=True), {(256, 128): 92.2}),
        (float16, Product(256, 256, 256, 256), {(128, 128): 29.3, (256, 128): 30.7}),
        (float16, Product(8192, 256, 8192), {(128, 128): 56.9}),
        (float16, Product(128, 8192, 8192), {(64, 128): 36.6}),
        (float32, Product(512, 512, 512), {(32, 64): 13.3, (32, 32): 14.5}),
        (float32, Product(16, 4096, 16384), {(16, 128): 71.4, (16, 256): 73.1}),
        (float32, Product(4095, 4097, 4099), {(128, 128): 3064, (64, 128): 3128}),
        (float64, Product(1024, 1024, 1024), {(64, 128): 42.5, (64, 64): 43.0}),
        (float64, Product(4096, 4096, 4096), {(128, 128): 2246}),
        (float64, Product(8192, 8192, 8192), {(128, 128): 18252, (64, 64): 18566}),
    ],
)
def test_the_model_picks_what_was_measured_to_be_best(
    kind: DType, product: Product, best: dict[tuple[int, int], float]
) -> None:
    device: Any = SimpleNamespace(capabilities=H200)
    choice, _ = schemes(device, kind, "auto", product)[0]
    assert (choice["BM"], choice["BN"]) in best


@pytest.mark.parametrize(("columns", "k"), [(8192, 256), (4096, 1024)])
@pytest.mark.parametrize("added", [False, True])
def test_many_tiles_are_made_in_turn_where_nothing_is_added(
    columns: int, k: int, added: bool
) -> None:
    """Workgroups meet before they store what may be an addend."""
    device: Any = SimpleNamespace(capabilities=H200)
    how = {"ACC": float32, "ACTIVATION": keep}
    tried = launches(
        Asked(device, float16, (8192, columns), k, "auto", how, False, EpilogueKind(added=added))
    )
    turns = [launch.constants["TILING"].persistent for launch in tried]
    assert turns[0] != added
    assert any(turns) != added


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("edge", [256, 512, 1024, 4096])
def test_cores_have_as_much_to_do_as_each_other(edge: int, dtype: DType) -> None:
    """Large tiles copy less, where there are enough of them; a core begins with half of them."""
    cores = portable.device("simulator:intel-cpu").capabilities
    tile = tried(cores, dtype, edge)[0]
    rows, columns = (range(0, edge, tile[name]) for name in ("BM", "BN"))
    areas = [min(tile["BM"], edge - i) * min(tile["BN"], edge - j) for i in rows for j in columns]
    busiest = max(sum(areas[: len(areas) // 2]), sum(areas[len(areas) // 2 :]))
    assert busiest <= 0.53 * edge * edge
    assert tile["BM"] >= 132


@pytest.mark.parametrize("edge", [1, 8, 48])
def test_a_core_clears_no_tile_much_larger_than_the_result(edge: int) -> None:
    cores = portable.device("simulator:intel-cpu").capabilities
    tile = tried(cores, float32, edge)[0]
    assert tile["BM"] * tile["BN"] <= 64 * 64


def test_more_local_memory_than_a_driver_tells_of() -> None:
    """Large products of doubles take it where it was seen, and those of warpgroups; others not."""
    warpgroups = profiles.load("nvidia-opencl").capabilities
    units = frozenset(x for x in warpgroups.matrix_units if x.startswith("mma."))
    seen = replace(warpgroups, matrix_units=units)
    told = replace(seen, local_memory_seen=0)

    def largest(kind: DType, capabilities: Capabilities) -> int:
        choice = first(capabilities, kind)
        return int(choice["STAGES"] * (choice["BM"] + choice["BN"]) * choice["BK"] * kind.itemsize)

    assert largest(float64, told) <= told.local_memory < largest(float64, seen)
    assert largest(float16, told) == largest(float16, seen) <= told.local_memory
    assert largest(float16, seen) < largest(float16, warpgroups)


def test_tiles_that_are_copied_apart_are_for_warpgroups_alone() -> None:
    """Which an OpenCL driver may lack on the very device that has them through another."""
    warpgroups = profiles.load("nvidia-opencl").capabilities
    units = frozenset(x for x in warpgroups.matrix_units if x.startswith("mma."))
    assert first(warpgroups, float16)["SPECIALISED"]
    assert not first(replace(warpgroups, matrix_units=units), float16)["SPECIALISED"]


def first(capabilities: Capabilities, kind: DType, edge: int = 4096) -> Any:
    """The tiles that a square product tries first."""
    device: Any = SimpleNamespace(capabilities=capabilities)
    return schemes(device, kind, "auto", Product(edge, edge, edge))[0][0]


def test_few_tiles_of_long_sums_are_cut_for_all_compute_units() -> None:
    device = portable.device("simulator:h200")
    units = device.capabilities.compute_units
    for kind in (float32, float64):
        _, parts = schemes(device, kind, "auto", Product(10, 10, 100_000))[0]
        assert parts > units // 2
        _, parts = schemes(device, kind, "auto", Product(1024, 1024, 1024))[0]
        assert parts <= 16


def test_beside_other_work_tiles_are_for_the_units_that_are_left() -> None:
    """Those that fill one round of all units would take two."""
    device = portable.device("simulator:h200")
    alone, beside = (Product(256, 7680, 8192, taken=units) for units in (0, 48))
    times = [
        predicted(*schemes(device, float32, "auto", x)[0], beside, float32, device.capabilities)
        for x in (alone, beside)
    ]
    assert times[1] < 0.9 * times[0]
