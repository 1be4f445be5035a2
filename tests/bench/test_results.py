"""Files of results: what is written is read again, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

import pytest

from portable.errors import DataError
from portable.system.console import show
from portable.tune.stopwatch import Timing
from portable_bench.growth import fits, models
from portable_bench.operation import Work
from portable_bench.page import page
from portable_bench.results import Cell, Outcome, Results, changes, load, write
from portable_bench.roof import roofs
from portable_bench.tables import change_table, fit_table, ladder_table, model_table, tables
from tests.bench.fakes import ENVIRONMENT

OURS = Outcome("portable", False, 0.5, "", 3, [Timing(0.2, 0.1), Timing(0.3, None)])
PEER = Outcome("NumPy", True, inf, "no room")
CELL = Cell("band", "cpu", "f32", (9, 2), "9x2", Work(8.0, 4.0), {"hop": 3.0}, [OURS, PEER])
EMPTY = Cell("launch", "cpu", "f32", (1,), "1", None, failure="interrupted")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "found.json"
    write(found, Results(ENVIRONMENT, [CELL, EMPTY]))
    return found


def test_what_is_written_is_read(path: Path) -> None:
    assert load(path) == Results(ENVIRONMENT, [CELL, EMPTY])
    assert [p.name for p in path.parent.iterdir()] == ["found.json"]


def without_samples(content: dict[str, Any]) -> None:
    del content["cells"][0]["outcomes"][0]["samples"]


def negative_time(content: dict[str, Any]) -> None:
    content["cells"][0]["outcomes"][0]["samples"][0]["wall"] = -1


def no_machine(content: dict[str, Any]) -> None:
    del content["environment"]["machine"]


def other_version(content: dict[str, Any]) -> None:
    content["schema"] = 1


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (without_samples, "'samples' is a required property"),
        (negative_time, "outcomes[0].samples[0].wall"),
        (no_machine, "'machine' is a required property"),
        (other_version, "is of version 1, not 2"),
    ],
)
def test_damaged_files(path: Path, spoil: Callable[[dict[str, Any]], None], said: str) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    spoil(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DataError) as caught:
        load(path)
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2', "\x00", "[" * 100_000])
def test_files_of_something_else(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"other\.json"):
        load(path)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        load(tmp_path / "nothing.json")


def spoiled(path: Path, old: str, new: str) -> Path:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path


@pytest.mark.parametrize("word", ["NaN", "-Infinity", "1e999"])
def test_numbers_that_are_none(path: Path, word: str) -> None:
    """Where a number has to be they are damage; elsewhere they are nothing, and the page draws."""
    with pytest.raises(DataError, match=r"samples\[0\]\.wall"):
        load(spoiled(path, '"wall": 0.2', f'"wall": {word}'))
    spoiled(path, f'"wall": {word}', '"wall": 0.2')
    found = load(spoiled(path, '"options": {}', f'"options": {{"seconds": {word}}}'))
    assert found.environment["options"] == {"seconds": None}
    with pytest.raises(DataError, match=r"compute_units"):
        load(spoiled(path, '"compute_units": 2', f'"compute_units": {word}'))
    assert "NaN" not in page(Results(ENVIRONMENT | {"options": {"x": float("nan")}}, []))


def zero(name: str, peer: bool, *walls: float) -> Outcome:
    return Outcome(name, peer, 0.5, samples=[Timing(wall) for wall in walls])


def hostile_cells() -> list[Cell]:
    """Times of 0, and names with markup and escape sequences, in everything that is shown."""
    name = "[/x] [bold]\x1b[2J"
    work = Work(8.0, 4.0)
    return [
        Cell(operation, "cpu", name, (n,), name, work, {"hop": n}, [ours, peer], name)
        for operation in ("copy", "fma", "band", name)
        for n, ours, peer in (
            (1, zero(name, False, 0, 0), zero(name, True, 1)),
            (2, zero(name, False, 0, 1, 1), zero(name, True, 0, 0, 2)),
            (3, zero(name, False, 1, 2, 3), zero(name, True, 0)),
        )
    ]


def test_times_of_nothing_and_hostile_names_can_be_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cells = hostile_cells()
    limits = roofs(cells)
    shown = [*tables(cells), *(ladder_table(cell, limits) for cell in cells)]
    shown += [change_table(changes(cells, list(reversed(cells))))]
    shown += [fit_table(fits(cells)), model_table(models(cells))]
    for table in shown:
        show(table)
    assert "\x1b" not in capsys.readouterr().out
    page(Results(ENVIRONMENT, cells))
