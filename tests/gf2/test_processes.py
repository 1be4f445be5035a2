"""Several processes give the bits that one gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from portable import gf2
from portable.backend import Device
from portable.errors import DataError
from portable.gf2.eliminate import checked_leads
from portable.gf2.elimination import Elimination
from portable.gf2.layout import Order
from portable.gf2.made_up import random_problem
from portable.gf2.shared_out import Shares, eliminated_together
from portable.gf2.tuning import Shape
from portable.parallel import Member, group
from portable.parallel.member import Opened
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

    def work(member: Member) -> tuple[np.ndarray, np.ndarray]:
        own = shares.words(member.rank)
        held, given = (x.to_words()[:, own] for x in (eliminators, rows))
        return eliminated_together(held, given, leads, shares, member, shape=shape)

    found = group(["cpu"] * size).run(work)
    words = shares.joined([words for words, _ in found])
    assert gf2.BitMatrix.from_words(words, 700, device="cpu") == expected.rows
    for _, promoted in found:
        np.testing.assert_array_equal(promoted, expected.promoted)


def test_pivots_are_brought_up_to_date_once_where_telling_waits_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    eliminators, rows = random_problem(330, 150, 20, device="simulator")
    order, leads, shape = Order(330, backward=True), checked_leads(eliminators), _SHAPES[1]
    shares, solved = Shares.whole(order, shape.width, 2), []
    opened, solve = Member.opened, Elimination.solve

    def direct(*args: Any, **settings: Any) -> Opened:
        return opened(*args, **settings)._replace(direct=True)

    def counted(work: Elimination, stripe: int, first: int, last: int) -> None:
        solved.append((work.layout.held[0], stripe))
        solve(work, stripe, first, last)

    monkeypatch.setattr(Member, "opened", direct)
    monkeypatch.setattr(Elimination, "solve", counted)

    def work(member: Member) -> np.ndarray:
        own = shares.words(member.rank)
        held, given = (x.to_words()[:, own] for x in (eliminators, rows))
        return eliminated_together(held, given, leads, shares, member, shape=shape)[0]

    words = shares.joined(group(["simulator"] * 2).run(work))
    found = gf2.BitMatrix.from_words(words, 330, device="simulator")
    assert sorted(solved) == [(rank, stripe) for rank in range(2) for stripe in range(3)]
    monkeypatch.undo()
    assert found == gf2.eliminate(eliminators, rows).rows


@pytest.mark.parametrize("others", [[], ["simulator"]], ids=["alike", "different"])
def test_devices_of_a_group(device: Device, others: list[str]) -> None:
    simulated = device.backend == "simulator"
    shape = (330, 150, 20) if simulated or others else (1500, 700, 400)
    eliminators, rows = random_problem(*shape, device=device)
    expected = gf2.eliminate(eliminators, rows)
    told: list[float] = []
    out = gf2.BitMatrix.zeros(rows.shape, device=device)
    found = gf2.eliminate(
        eliminators, rows, group=group([*others, device, device]), out=out, progress=told.append
    )
    assert found.rows is out
    assert out == expected.rows
    np.testing.assert_array_equal(found.promoted, expected.promoted)
    assert told[-1] == 1


def test_what_groups_are_refused() -> None:
    one = gf2.BitMatrix.from_columns([[0]], 2)
    with pytest.raises(ValueError, match="one of group=, comm= with or without device="):
        gf2.eliminate(one, one, group=group(["simulator"]), device="simulator")
    twice = gf2.BitMatrix.from_columns([[0], [0]], 2)
    with pytest.raises(DataError, match="its leading column is 0"):
        gf2.eliminate(twice, one, group=group(["simulator"] * 2))


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
    out = tmp_path / f"out.{ending}"
    gf2.eliminate_file(known, rows, out, group=group(["cpu"] * 3))
    if ending == "txt":
        assert out.read_bytes() == expected.read_bytes()
    assert gf2.read_matrix(out, columns=300) == gf2.read_matrix(expected, columns=300)
    assert not list(tmp_path.glob(".*"))


# -- through MPI ----------------------------------------------------------------------------------


@pytest.mark.needs_processor
@pytest.mark.parametrize("count", [2, 3])
def test_the_command_by_processes(tmp_path: Path, count: int) -> None:
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
