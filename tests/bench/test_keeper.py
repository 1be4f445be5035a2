"""The file of a run while it goes on, and what was in it before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from portable_bench import run
from portable_bench.results import Cell, Outcome, Results, load, write
from portable_bench.run import Keeper
from tests.bench.fakes import ENVIRONMENT, outcome


def cell(n: int, *outcomes: Outcome) -> Cell:
    own = outcomes or (outcome("portable", 1.0),)
    return Cell("gemm", "cpu", "f32", (n,), str(n), None, outcomes=list(own))


class Kept:
    """A run, and what it told."""

    def __init__(self, path: Path) -> None:
        self.told: list[str] = []
        self.keeper = Keeper(path, lambda: ENVIRONMENT, self.told.append)

    def finish(self, cells: list[Cell]) -> None:
        self.keeper.finish(Results(ENVIRONMENT, cells))


def sizes(path: Path) -> list[int]:
    return [cell.size[0] for cell in load(path).cells]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.json"


@pytest.fixture
def earlier(path: Path) -> Path:
    """Results of three cells are there already."""
    write(path, Results(ENVIRONMENT, [cell(1), cell(2), cell(3)]))
    return path.with_name("run.earlier.json")


def test_every_cell_is_in_the_file_when_it_is_finished(path: Path) -> None:
    kept = Kept(path)
    for n in (2, 1):
        kept.keeper.add(cell(n))
        assert sizes(path)[-1] == n
    kept.finish([cell(1), cell(2)])
    assert sizes(path) == [1, 2]
    assert not kept.told


def test_the_file_says_in_the_end_when_the_results_say_that_they_were_made(path: Path) -> None:
    results = Results(ENVIRONMENT | {"time": "2026-01-02T03:04:05+00:00"}, [cell(1)])
    kept = Kept(path)
    kept.keeper.add(cell(1))
    kept.keeper.finish(results)
    assert load(path) == results


def test_earlier_results_stay_until_the_new_ones_have_all_of_theirs(
    path: Path, earlier: Path
) -> None:
    kept = Kept(path)
    for n in (1, 2, 3, 4):
        kept.keeper.add(cell(n))
        assert sizes(earlier) == [1, 2, 3]
    kept.finish([cell(1), cell(2), cell(3), cell(4)])
    assert not earlier.exists()
    assert not kept.told


def test_fewer_results_do_not_replace_more(path: Path, earlier: Path) -> None:
    kept = Kept(path)
    cells = [cell(1), cell(2, Outcome("portable", False, failure="no room")), cell(9)]
    for one in cells:
        kept.keeper.add(one)
    kept.finish(cells)
    assert sizes(path) == [1, 2, 9]
    assert sizes(earlier) == [1, 2, 3]
    (told,) = kept.told
    assert "lacks 2 cells of the earlier results" in told
    again = Kept(path)
    again.keeper.add(cell(1))
    assert sizes(earlier) == [1, 2, 3]
    assert sizes(path.with_name("run.earlier-2.json")) == [1, 2, 9]


def test_a_run_without_a_cell_changes_nothing(path: Path, earlier: Path) -> None:
    kept = Kept(path)
    kept.finish([])
    assert sizes(path) == [1, 2, 3]
    assert not earlier.exists()
    assert "no cell was finished" in kept.told[0]


def test_what_is_no_results_is_kept(path: Path) -> None:
    path.write_text("a letter", encoding="utf-8")
    kept = Kept(path)
    kept.keeper.add(cell(1))
    kept.finish([cell(1)])
    assert path.with_name("run.earlier.json").read_text(encoding="utf-8") == "a letter"
    assert "no results of this version" in kept.told[0]


def test_a_full_disk_is_told_once_and_leaves_what_was_there(
    path: Path, earlier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object) -> None:
        raise OSError(28, "No space left on device")

    kept = Kept(path)
    with monkeypatch.context() as patched:
        patched.setattr(run, "write_lines", full)
        kept.keeper.add(cell(7))
        kept.keeper.add(cell(8))
        assert kept.told == [f"{path} cannot be written for now: No space left on device"]
        with pytest.raises(OSError, match="No space"):
            kept.finish([cell(7), cell(8)])
        assert sizes(path) == [1, 2, 3]
        assert not earlier.exists()
    kept.finish([cell(7), cell(8)])  # there is room again
    assert sizes(path) == [7, 8]
    assert sizes(earlier) == [1, 2, 3]


def test_a_link_stays_one(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere.json"
    path.symlink_to(target)
    Kept(path).keeper.add(cell(1))
    assert path.is_symlink()
    assert sizes(target) == [1]


@pytest.mark.parametrize("where", ["fifo", "/dev/stdout"])
def test_what_is_no_file_is_written_once(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []
    monkeypatch.setattr(run, "write_lines", lambda *given: written.append(given))
    if where == "fifo":
        os.mkfifo(tmp_path / where)
    kept = Kept(tmp_path / where)
    kept.keeper.add(cell(1))
    assert not written
    kept.finish([cell(1)])
    assert [given[0] for given in written] == [tmp_path / where]
