"""Two runs side by side."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from portable_bench.cli import bench
from portable_bench.operation import Work
from portable_bench.results import Cell, Outcome, Results, changes, regressions, write
from tests.bench.fakes import ENVIRONMENT, outcome


def cell(*outcomes: Outcome, size: int = 8) -> Cell:
    work = Work(1e9, 1e6)
    return Cell("gemm", "cpu", "f32", (size,) * 3, str(size), work, outcomes=list(outcomes))


BROKEN = Outcome("portable", False, failure="no room")


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (outcome("portable", 1.0), outcome("portable", 0.5), "faster"),
        (outcome("portable", 1.0), outcome("portable", 2.0), "slower"),
        (outcome("portable", 1.0), outcome("portable", 1.02), "same"),
        (outcome("portable", 1.0, spread=0.1), outcome("portable", 1.3), "same"),
        (outcome("portable", 1.0, spread=0.01), outcome("portable", 1.3), "slower"),
        (outcome("portable", 1.0), BROKEN, "broken"),
        (BROKEN, outcome("portable", 1.0), "mended"),
        (BROKEN, BROKEN, "failing"),
    ],
)
def test_verdicts(before: Outcome, after: Outcome, verdict: str) -> None:
    (change,) = changes([cell(before)], [cell(after)])
    assert change.verdict == verdict


def test_one_sample_says_little() -> None:
    before, after = outcome("portable", 1.0), outcome("portable", 1.2)
    del after.samples[1:]
    (change,) = changes([cell(before)], [cell(after)])
    assert change.verdict == "same"


def test_what_only_one_run_has() -> None:
    ours = outcome("portable", 1.0)
    found = changes([cell(ours)], [cell(ours, size=9)])
    assert [c.verdict for c in found] == ["new", "gone"]


def test_a_library_is_no_regression_of_ours() -> None:
    before = [cell(outcome("portable", 1.0), outcome("NumPy", 1.0, True))]
    after = [cell(outcome("portable", 1.25), outcome("NumPy", 9.0, True))]
    found = changes(before, after)
    assert [c.name for c in regressions(found, 0.9)] == ["portable"]
    assert not regressions(found, 0.7)


@pytest.mark.parametrize(
    ("seconds", "words", "code"),
    [(2.0, (), 0), (2.0, ("--fail-below", "0.9"), 1), (1.0, ("--fail-below", "0.9"), 0)],
)
def test_on_the_command_line(
    tmp_path: Path, seconds: float, words: tuple[str, ...], code: int
) -> None:
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, time in zip(paths, (1.0, seconds), strict=True):
        write(path, Results(ENVIRONMENT, [cell(outcome("portable", time))]))
    done = CliRunner().invoke(bench, ["compare", *map(str, paths), *words])
    assert done.exit_code == code, done.output
    assert ("slower" in done.output) == (seconds > 1)


def test_what_else_may_explain_a_change(tmp_path: Path) -> None:
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    other = ENVIRONMENT | {"commit": "0123456789ab", "versions": {"numpy": "2.2"}}
    for path, environment in zip(paths, (ENVIRONMENT, other), strict=True):
        write(path, Results(environment, [cell(outcome("portable", 1.0))]))
    done = CliRunner().invoke(bench, ["compare", *map(str, paths)])
    assert "the version of numpy differs: 2.1 before, 2.2 after" in done.output
    assert "commit" not in done.output


def test_files_that_are_no_results(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("{}", encoding="utf-8")
    done = CliRunner().invoke(bench, ["compare", str(path), str(path)])
    assert done.exit_code == 1
    assert "is damaged" in done.output
