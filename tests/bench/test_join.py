"""A run that was cut short, and those that complete it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from portable.errors import DataError
from portable_bench.cli import bench
from portable_bench.results import Cell, Outcome, Results, joined, load, write
from tests.bench.fakes import ENVIRONMENT, outcome

LATER = ENVIRONMENT | {"time": "2026-01-02T04:05:06+00:00", "options": {"budget": None}}
OUT_OF_TIME = "the 9 s were over"


def cell(size: int, *outcomes: Outcome, failure: str = "") -> Cell:
    return Cell("band", "cpu", "f32", (size, 2), f"{size}x2", None, {}, list(outcomes), failure)


def ours(seconds: float) -> Outcome:
    return outcome("portable", seconds)


LEFT_OUT = cell(8, failure=OUT_OF_TIME)
BROKEN = cell(9, Outcome("portable", False, failure="no room"), outcome("LAPACK", 1.0, True))
FIRST = Results(ENVIRONMENT, [LEFT_OUT, cell(7, ours(1.0)), BROKEN])
MORE = Results(LATER, [cell(6, ours(2.0)), *(cell(n, ours(3.0)) for n in (7, 8, 9))])


def test_what_is_missing_comes_from_later_runs() -> None:
    whole = joined(FIRST, [("more.json", MORE)])
    assert [c.size[0] for c in whole.cells] == [8, 7, 9, 6]
    assert [c.ours[0].seconds for c in whole.cells] == [3.0, 1.0, 3.0, 2.0]
    completed = [{"file": "more.json", "time": LATER["time"]}]
    assert whole.environment == ENVIRONMENT | {"completed": completed}
    assert FIRST.cells[0] is LEFT_OUT
    assert "completed" not in FIRST.environment


def test_the_first_timing_stays_and_the_last_reason() -> None:
    broken = Results(LATER, [cell(8, failure="no room"), cell(9, ours(4.0))])
    whole = joined(FIRST, [("broken.json", broken), ("more.json", MORE), ("again.json", MORE)])
    assert [c.ours[0].seconds for c in whole.cells] == [3.0, 1.0, 4.0, 2.0]
    files = [run["file"] for run in whole.environment["completed"]]
    assert files == ["broken.json", "more.json"]
    assert joined(FIRST, [("broken.json", broken)]).cells[0].failure == "no room"


def test_a_run_that_was_completed_before() -> None:
    one = joined(FIRST, [("one.json", Results(LATER, [cell(8, ours(3.0))]))])
    rest = joined(Results(LATER, []), [("two.json", MORE)])
    whole = joined(one, [("rest.json", rest)])
    files = [run["file"] for run in whole.environment["completed"]]
    assert files == ["one.json", "rest.json", "two.json"]
    assert all(c.ours[0].timed for c in whole.cells)


def test_devices_of_later_runs_are_described() -> None:
    gpu = {"gpu": ENVIRONMENT["devices"]["cpu"] | {"kind": "gpu"}}
    whole = joined(FIRST, [("more.json", Results(LATER | {"devices": gpu}, []))])
    assert whole.environment["devices"] == ENVIRONMENT["devices"] | gpu


def with_blas(environment: dict[str, Any], kernels: str, package: str = "numpy") -> Any:
    library = {"name": "OpenBLAS", "version": "0.3", "part_of": package, "kernels": kernels}
    library |= {"threads": 2, "settings": {}}  # type: ignore[dict-item]
    return environment | {"peers": {"taken_away": {}, "libraries": [library], "held_back": []}}


def test_libraries_of_all_runs_are_described_and_have_to_be_the_same() -> None:
    first = Results(with_blas(ENVIRONMENT, "Haswell"), FIRST.cells)
    other = Results(with_blas(LATER, "SkylakeX", "scipy"), MORE.cells)
    whole = joined(first, [("other.json", other)])
    assert [x["part_of"] for x in whole.environment["peers"]["libraries"]] == ["numpy", "scipy"]
    held = Results(with_blas(LATER, "SkylakeX"), MORE.cells)
    with pytest.raises(DataError, match=r"OpenBLAS of numpy's kernels is SkylakeX in .*Haswell"):
        joined(first, [("held.json", held)])


def typed(folder: Path, *runs: Results) -> Result:
    """`portable bench join` with the runs as 0.json and so on, and out.json."""
    for i, run in enumerate(runs):
        write(folder / f"{i}.json", run)
    paths = [str(folder / f"{i}.json") for i in range(len(runs))]
    return CliRunner().invoke(bench, ["join", *paths, "--json", str(folder / "out.json")])


def test_on_the_command_line(tmp_path: Path) -> None:
    done = typed(tmp_path, FIRST, MORE, MORE)
    assert done.exit_code == 0, done.output
    assert load(tmp_path / "out.json") == joined(FIRST, [("1.json", MORE)])


def other_commit(environment: dict[str, Any]) -> dict[str, Any]:
    return environment | {"commit": "0123456789ab"}


def other_python(environment: dict[str, Any]) -> dict[str, Any]:
    return environment | {"python": "3.12.0"}


def other_machine(environment: dict[str, Any]) -> dict[str, Any]:
    return environment | {"machine": environment["machine"] | {"cores": 4}}


def other_library(environment: dict[str, Any]) -> dict[str, Any]:
    return environment | {"versions": environment["versions"] | {"torch": "2.11"}}


def other_driver(environment: dict[str, Any]) -> dict[str, Any]:
    devices = {name: d | {"driver": "1"} for name, d in environment["devices"].items()}
    return environment | {"devices": devices}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (other_commit, "the commit is 0123456789ab in 2.json, not none"),
        (other_python, "Python is 3.12.0 in 2.json, not 3.11.0"),
        (other_machine, "the machine's cores is 4 in 2.json, not 2"),
        (other_library, "the version of torch is 2.11 in 2.json, not none"),
        (other_driver, "cpu's driver is 1 in 2.json, not 0"),
    ],
)
def test_runs_that_cannot_be_joined(
    tmp_path: Path, change: Callable[[dict[str, Any]], dict[str, Any]], said: str
) -> None:
    done = typed(tmp_path, FIRST, MORE, Results(change(LATER), MORE.cells))
    assert done.exit_code == 1
    assert said in " ".join(done.output.split())
    assert "1.json" not in done.output
    assert not (tmp_path / "out.json").exists()


def test_later_runs_must_agree_on_devices_that_the_first_lacks(tmp_path: Path) -> None:
    lacking = Results(ENVIRONMENT | {"devices": {}}, [])
    done = typed(tmp_path, lacking, MORE, Results(other_driver(LATER), []))
    assert done.exit_code == 1
    assert "cpu's driver is 1 in 2.json" in " ".join(done.output.split())


def test_nothing_to_join(tmp_path: Path) -> None:
    assert typed(tmp_path, FIRST).exit_code == 2
