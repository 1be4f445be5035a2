"""The special elimination gives bit for bit what the serial algorithm gives."""

from __future__ import annotations

import os
from functools import reduce
from itertools import compress
from operator import xor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from portable import gf2, registry
from portable.backend import Device
from portable.errors import DataError, DeviceMismatchError, ShapeError
from portable.gf2.eliminate import checked_owners
from portable.gf2.elimination import Elimination
from portable.gf2.layout import Order
from portable.gf2.tuning import Shape, shape_for
from tests.gf2.reference import Problem, columns_of, eliminated, random_problem

_SETS = ("1_130_22_8", "2_254_106_53", "3_562_170_53", "4_1011_539_263")


def matrices(problem: Problem, device: Device) -> tuple[gf2.BitMatrix, gf2.BitMatrix]:
    return tuple(  # type: ignore[return-value]
        gf2.BitMatrix.from_columns([columns_of(r) for r in rows], problem.columns, device=device)
        for rows in (problem.eliminators, problem.rows)
    )


def check(problem: Problem, device: Device) -> None:
    expected = eliminated(problem)
    rows, promoted = gf2.eliminate(*matrices(problem, device))
    assert rows.to_columns() == [columns_of(r) for r in expected]
    assert promoted.tolist() == [r != 0 for r in expected]


@settings(max_examples=16, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 2**32 - 1),
    columns=st.integers(1, 300),
    rows=st.integers(1, 150),
    density=st.sampled_from([0.02, 0.1, 0.5]),
)
@example(seed=1, columns=64, rows=64, density=0.5)
@example(seed=2, columns=1, rows=3, density=0.5)
def test_as_row_after_row(
    device: Device, seed: int, columns: int, rows: int, density: float
) -> None:
    if device.backend == "simulator":
        columns, rows = 1 + columns // 3, 1 + rows // 10
    check(random_problem(seed, columns, rows, density), device)


def check_layout(problem: Problem, device: Device, shape: Shape) -> None:
    """The same with a layout that is not the device's own."""
    eliminators, rows = matrices(problem, device)
    order = Order(problem.columns, backward=True)
    owners = checked_owners(eliminators, order)
    work = Elimination.of(rows, order, eliminators=eliminators, owners=owners, shape=shape)
    work.run()
    assert work.matrix().to_columns() == [columns_of(r) for r in eliminated(problem)]


def test_over_several_stripes(device: Device) -> None:
    size = 150 if device.backend == "simulator" else 1300
    check(random_problem(5, size, size // 2, 0.3), device)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("simulator", Shape(4, 4, 1, (4, 8), 16, 32)),
        ("simulator", Shape(5, 2, 2, (1, 1), 64, 64)),
        ("simulator:h200", Shape(4, 2, 2, (1, 16), 16, 16)),
    ],
    ids=["shared stripes", "a stripe each", "less than a sub-group"],
)
def test_schedules_without_races(name: str, shape: Shape) -> None:
    check_layout(random_problem(7, 150, 20, 0.3), registry.device(name), shape)


def test_pivots_far_apart(device: Device) -> None:
    """Rows that are sums of few, which are looked through to the last as columns have no pivot."""
    few = random_problem(9, 70, 6, 0.4)
    chosen = np.random.default_rng(9).random((700, 6)) < 0.5
    chosen[:600, 3:] = False
    rows = [reduce(xor, compress(few.rows, picks), 0) for picks in chosen]
    problem = Problem(70, few.eliminators, rows)
    own = shape_for(device.capabilities)
    check_layout(problem, device, own if own.alone else Shape(4, 4, 1, (4, 8), 16, 32))


@pytest.mark.parametrize("name", ["simulator:h200", "simulator:nvidia-opencl"])
def test_as_others_would_do_it(name: str) -> None:
    """Tables of the one are larger than other GPUs have room for; the other has just enough."""
    check(random_problem(8, 130, 12, 0.3), registry.device(name))


@pytest.mark.parametrize("name", _SETS)
def test_published_sets(device: Device, name: str) -> None:
    folder = Path(os.environ.get("PORTABLE_DATA", "")) / "gf2" / name
    if not os.environ.get("PORTABLE_DATA") or not folder.is_dir():
        pytest.skip("PORTABLE_DATA names no folder with the sets, which may not be shipped")
    if device.backend == "simulator" and name == _SETS[3]:
        pytest.skip("too large for the simulator")
    columns = int(name.split("_")[1])
    eliminators, rows, expected = (
        gf2.BitMatrix.from_columns(_read(folder / f"{part}.txt"), columns, device=device)
        for part in ("eliminators", "rows", "result")
    )
    assert gf2.eliminate(eliminators, rows).rows == expected


def _read(path: Path) -> list[list[int]]:
    return [[int(c) for c in line.split()] for line in path.read_text().splitlines()]


@pytest.mark.parametrize(("k", "m", "n"), [(0, 0, 0), (0, 3, 0), (0, 0, 5), (2, 0, 5), (0, 2, 70)])
def test_empty_ones(k: int, m: int, n: int) -> None:
    eliminators = gf2.BitMatrix.from_columns([[i] for i in range(k)], n)
    rows, promoted = gf2.eliminate(eliminators, gf2.BitMatrix.zeros((m, n)))
    assert rows == gf2.BitMatrix.zeros((m, n))
    assert promoted.shape == (m,)
    assert not promoted.any()


def test_out_may_be_the_rows() -> None:
    problem = random_problem(3, 100, 30, 0.2)
    eliminators, rows = matrices(problem, gf2.BitMatrix.zeros((1, 1)).device)
    kept = rows.copy()
    found = gf2.eliminate(eliminators, rows)
    assert rows == kept
    assert gf2.eliminate(eliminators, rows, out=rows).rows is rows
    assert rows == found.rows


def test_what_is_refused() -> None:
    rows = gf2.BitMatrix.zeros((2, 5))
    with pytest.raises(
        DataError, match="r 2: its leading column is 3, and so is that of eliminator 0"
    ):
        gf2.eliminate(gf2.BitMatrix.from_columns([[3], [2], [3, 1]], 5), rows)
    with pytest.raises(DataError, match="eliminator 1 is empty"):
        gf2.eliminate(gf2.BitMatrix.from_columns([[3], []], 5), rows)
    with pytest.raises(ShapeError, match="have 6 columns, the rows 5"):
        gf2.eliminate(gf2.BitMatrix.zeros((0, 6)), rows)
    with pytest.raises(ShapeError, match="out has shape"):
        gf2.eliminate(gf2.BitMatrix.zeros((0, 5)), rows, out=gf2.BitMatrix.zeros((1, 5)))
    elsewhere = gf2.BitMatrix.zeros((0, 5), device="simulator")
    if rows.device is not elsewhere.device:
        with pytest.raises(DeviceMismatchError, match=r"say device="):
            gf2.eliminate(elsewhere, rows)
    assert gf2.eliminate(elsewhere, rows, device="simulator").rows.device is elsewhere.device


def test_promoted_rows_come_before_reduction_in_rounds() -> None:
    """The second row rests on column 2 before the third, though that leads there from the start."""
    eliminators = gf2.BitMatrix.from_columns([[3, 2]], 4)
    rows = gf2.BitMatrix.from_columns([[3, 0], [2, 1]], 4)
    found = gf2.eliminate(eliminators, rows)
    assert found.rows.to_columns() == [[0, 2], [0, 1]]
    np.testing.assert_array_equal(found.promoted, [True, True])
