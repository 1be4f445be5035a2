"""Fitted powers, fitted models, roofs, sizes, and pictures of ladders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from portable import groups, use
from portable.backend import Device
from portable.dtypes import dtype as dtype_of
from portable.dtypes import float32, uint64
from portable_bench.growth import fits, models
from portable_bench.operation import Case, Work, parse_sizes
from portable_bench.operations import OPERATIONS
from portable_bench.plots import plot_ladders
from portable_bench.results import Cell, Outcome
from portable_bench.roof import attained, roofs, with_roofs
from portable_bench.roof_launches import multiply_tiles
from tests.bench.fakes import FakeDevice, outcome

SIZES = [(n, b) for n in (512, 1024, 4096) for b in (8, 32)]


def band(seconds: dict[tuple[int, int], float]) -> list[Cell]:
    known = OPERATIONS["band"]
    return [
        Cell(
            "band",
            "cpu",
            "f32",
            size,
            "",
            known.work(Case(FakeDevice(), float32, size)),
            known.model(size),
            [outcome("portable", t)],
        )
        for size, t in seconds.items()
    ]


def test_powers() -> None:
    (fit,) = fits(band({(n, b): 1e-9 * n**2 * b**0.5 for n, b in SIZES}))
    assert fit.powers == pytest.approx({"N": 2, "B": 0.5})
    assert fit.deviation == pytest.approx(0, abs=1e-9)
    assert fit.points == 6


def test_extents_that_grow_together_count_once() -> None:
    cells = [
        Cell("gemm", "cpu", "f32", (n, n, n), "", None, outcomes=[outcome("portable", 1e-9 * n**3)])
        for n in (64, 128, 256)
    ]
    (fit,) = fits(cells)
    assert fit.powers == pytest.approx({"M": 3})


def test_two_points_are_no_curve() -> None:
    assert fits(band({(512, 8): 1.0, (1024, 8): 4.0})) == []


def test_what_a_model_counts() -> None:
    cells = band({(n, b): 2e-6 * 2 * n + 5e-8 * n * n / (2 * b) for n, b in SIZES})
    (model,) = models(cells)
    assert model.seconds["hop of the chain"] == pytest.approx(2e-6, rel=1e-6)
    assert model.seconds["hop"] == pytest.approx(5e-8, rel=1e-6)
    assert model.seconds["flop"] == pytest.approx(0, abs=1e-15)
    assert model.worst < 1e-6


def limits() -> list[Cell]:
    copy = Cell("copy", "cpu", "f32", (1,), "", Work(0, 1e9), outcomes=[outcome("portable", 0.1)])
    fma = Cell("fma", "cpu", "f32", (1,), "", Work(1e9, 0), outcomes=[outcome("portable", 0.01)])
    return [copy, fma]


@pytest.mark.parametrize(
    ("work", "fraction"), [(Work(1e9, 1e6), 0.01), (Work(1e6, 1e9), 0.1), (None, None)]
)
def test_the_roof_is_the_lower_of_two(work: Work | None, fraction: float | None) -> None:
    roof = roofs(limits())["cpu", "f32"]
    assert (roof.bytes, roof.flops) == (pytest.approx(1e10), pytest.approx(1e11))
    found = attained(Cell("x", "cpu", "f32", (1,), "", work), outcome("portable", 1.0), roof)
    assert found == (fraction if fraction is None else pytest.approx(fraction))


def test_nothing_is_attained_without_a_roof_or_a_time() -> None:
    cell = Cell("x", "cpu", "f32", (1,), "", Work(1.0, 1.0))
    assert attained(cell, outcome("portable", 1.0), None) is None
    roof = roofs(limits())["cpu", "f32"]
    assert attained(cell, Outcome("portable", False, failure="no"), roof) is None


@pytest.mark.parametrize(
    ("seconds", "peer", "kept"), [(1, False, True), (1e-3, True, True), (1e-3, False, False)]
)
def test_what_ours_go_through_is_no_roof(seconds: float, peer: bool, kept: bool) -> None:
    found = [outcome("some", seconds, peer)]
    cell = Cell("gemm", "cpu", "f32", (8, 8, 8), "8", Work(1e9, 1e6), outcomes=found)
    roof = roofs([*limits(), cell])["cpu", "f32"]
    assert (roof.flops is not None) == kept
    assert roof.bytes == pytest.approx(1e10)
    assert (attained(cell, found[0], roof) is not None) == kept
    moved = Cell("copy", "cpu", "f32", (8,), "8", Work(0.0, 1e9))
    assert attained(moved, outcome("some", 1.0), roof) == pytest.approx(0.1)


def test_roofs_are_measured_first_and_once() -> None:
    case = Case(FakeDevice(), float32, (64, 64, 64))
    gemm, copy, launch = (OPERATIONS[name] for name in ("gemm", "copy", "launch"))
    planned = with_roofs([(gemm, case), (gemm, case), (launch, case)])
    assert [op.name for op, _ in planned] == ["copy", "fma", "gemm", "gemm", "launch"]
    again = with_roofs([(copy, Case(case.device, float32, (1,))), (gemm, case)])
    assert [op.name for op, _ in again] == ["fma", "copy", "gemm"]
    assert with_roofs([(launch, case)]) == [(launch, case)]


def test_operations_over_bits_have_a_roof_of_their_own() -> None:
    bits = Case(FakeDevice(), uint64, (128,))
    squares, lookup = OPERATIONS["gf2_matmul"], OPERATIONS["lookup"]
    names = [operation.name for operation, _ in with_roofs([(squares, bits), (lookup, bits)])]
    assert names == ["copy", "gf2_matmul", "lookup"]


def test_a_ladder_as_a_picture(tmp_path: Path) -> None:
    rungs = [outcome("naive", 1.0), outcome("register", 0.01), outcome("NumPy", 0.005, True)]
    cell = Cell("gemm", "cpu", "f32", (8, 8, 8), "8", Work(1e9, 1e6), outcomes=rungs)
    for suffix in (".png", ".svg"):
        path = tmp_path / f"ladder{suffix}"
        plot_ladders([*limits(), cell], [cell, cell], path)
        assert path.stat().st_size > 5000


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("512", [(512,)]),
        ("1,2x3", [(1,), (2, 3)]),
        ("100..900", [(100,), (200,), (400,), (800,)]),
        ("1..7+3x2", [(1, 2), (4, 2), (7, 2)]),
        ("4..4", [(4,)]),
    ],
)
def test_sizes(text: str, sizes: list[tuple[int, ...]]) -> None:
    assert parse_sizes(text) == sizes


@pytest.mark.parametrize("text", ["", "0", "-1", "2x", "4..", "9..3", "1.5", "4+2", "a"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match=r"no positive number|is empty"):
        parse_sizes(text)


@pytest.mark.needs_compiler
@pytest.mark.parametrize("name", ["copy", "fma"])
def test_roofs_are_verified(device: Device, name: str) -> None:
    from portable_bench.harness import Harness, Pace

    case = Case(device, float32, (1,))
    cell = Harness(Pace(cell=0, least_rounds=1)).measure(OPERATIONS[name], case)
    assert cell.ours[0].verified, cell
    assert cell.ours[0].timed


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_tiles_are_multiplied_as_often_as_asked(device: Device, dtype: str) -> None:
    m, n, k, steps = 32, 64, 16, 5
    register = dtype_of(dtype).register
    a, b = (device.from_numpy(np.ones(shape, dtype)) for shape in ((m, k), (k, n)))
    out = device.from_numpy(np.zeros((m, n), register.numpy))
    workgroup = 1 if device.capabilities.kind == "cpu" else 64
    with use(device):
        launch = multiply_tiles[groups(3), workgroup]
        launch(a, b, out, steps, 2 / (k * steps), BM=m, BN=n, BK=k, ACC=register)
    np.testing.assert_allclose(device.to_numpy(out), 2, rtol=1e-6)
