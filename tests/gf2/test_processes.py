"""Several processes give the bits that one gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from portable import gf2
from portable.backend import Device
from portable.gf2.eliminate import checked_leads
from portable.gf2.elimination import Order
from portable.gf2.made_up import random_problem
from portable.gf2.shared_files import eliminate_files_together
from portable.gf2.shared_out import Shares, eliminated_together
from portable.gf2.team import Team
from portable.gf2.tuning import Shape
from tests.gf2.threads import run_together
from tests.support.mpi import run_processes

_SHAPES = [Shape(4, 2, 2, (1, 1), 64, 64), Shape(4, 2, 1, (2, 16), 16, 32)]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("shape", _SHAPES, ids=["a stripe each", "shared stripes"])
@pytest.mark.needs_processor
def test_each_holds_some_stripes(size: int, shape: Shape) -> None:
    eliminators, rows = random_problem(700, 350, 200, device="cpu")
    expected = gf2.eliminate(eliminators, rows)
    order, leads = Order(700, backward=True), checked_leads(eliminators)
    shares = Shares.whole(order, shape.width, size)

    def work(team: Team) -> tuple[np.ndarray, np.ndarray]:
        own = shares.words(team.rank)
        held, given = (x.to_words()[:, own] for x in (eliminators, rows))
        return eliminated_together(held, given, leads, shares, rows.device, team, shape=shape)

    found = run_together(size, work)
    words = shares.joined([words for words, _ in found])
    assert gf2.BitMatrix.from_words(words, 700, device="cpu") == expected.rows
    for _, promoted in found:
        np.testing.assert_array_equal(promoted, expected.promoted)


def _files(folder: Path, device: str = "cpu") -> tuple[Path, Path, Path]:
    paths = tuple(folder / f"{name}.txt" for name in ("eliminators", "rows", "expected"))
    eliminators, rows = random_problem(300, 120, 90, seed=4, device=device)
    for path, matrix in zip(paths, (eliminators, rows), strict=False):
        gf2.write_matrix(path, matrix)
    gf2.eliminate_file(*paths, device=device)
    return paths[0], paths[1], paths[2]


@pytest.mark.needs_processor
@pytest.mark.parametrize("ending", ["txt", "gf2"])
def test_files_are_shared_too(tmp_path: Path, ending: str) -> None:
    known, rows, expected = _files(tmp_path)
    device: Device = gf2.read_matrix(rows, device="cpu").device
    out = tmp_path / f"out.{ending}"
    run_together(3, lambda team: eliminate_files_together(known, rows, out, device, team, None))
    if ending == "txt":
        assert out.read_bytes() == expected.read_bytes()
    assert gf2.read_matrix(out, columns=300) == gf2.read_matrix(expected, columns=300)
    assert not list(tmp_path.glob(".*"))


# -- through MPI ----------------------------------------------------------------------------------

_ONE_FAILS = """
import sys
from portable.gf2.team import MPITeam
from mpi4py import MPI
team = MPITeam(MPI.COMM_WORLD)
def work():
    if team.rank == 1:
        raise RuntimeError("the disk is gone")
    team.wait()
team.together(work)
"""


@pytest.mark.needs_processor
@pytest.mark.parametrize("count", [2, 3])
def test_the_command_underrun_processes(tmp_path: Path, count: int) -> None:
    known, rows, expected = _files(tmp_path)
    out = tmp_path / "out.txt"
    command = "from portable.cli import main; main()"
    words = ("gf2", "eliminate", known, rows, "--out", out, "--device", "cpu")
    done = run_processes(count, "-c", command, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert out.read_bytes() == expected.read_bytes()
    assert done.stdout.count("90 rows: ") == 1
    if count == 2:
        known.write_text("5 1\n5 2\n")
        refused = run_processes(count, "-c", command, *words)
        assert refused.returncode != 0
        assert refused.stderr.count("line 2: its leading column is 5") == 1


def test_a_process_that_fails_ends_all() -> None:
    done = run_processes(2, "-c", _ONE_FAILS)
    assert done.returncode != 0
    assert done.stderr.count("process 1 of 2 failed, which ends them all") == 1
    assert "RuntimeError: the disk is gone" in done.stderr
