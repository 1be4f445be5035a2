"""The grid of lopsided shapes: what is measured, what is found wrong, and how it is shown."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from portable.backend import Device
from portable_bench import cliffs_cli
from portable_bench.cli import bench
from portable_bench.cliffs_cli import (
    Cliff,
    Question,
    geometric_mean,
    measure,
    questions,
    worst_first,
)


def doubled(xp: Any, x: Any) -> Any:
    return x + x


def test_the_grid_has_every_kind_of_shape() -> None:
    asked = list(questions())
    shapes = {shape for question in asked for shape in question.shapes}
    assert {(1 << 20,), (300_000, 3), (3, 300_000), (1000, 777), (10_000, 8, 8)} <= shapes
    assert {"float32", "float64", "int64", "complex64"} <= {question.dtype for question in asked}
    assert {question.name for question in questions(["sum"])} == {"sum"}


def test_right_results_are_timed_beside_numpy(device: Device) -> None:
    if device.interprets:
        pytest.skip("an interpreter has no times")
    told: list[Cliff] = []
    (row,) = measure(device, [Question("add", ((100,),), "float32", doubled)], 0, told.append)
    assert not row.error
    assert told == [row]
    if device.capabilities.kind == "cpu":
        assert row.ratio is not None
        assert row.ours > 0 < row.theirs


def test_a_wrong_result_is_never_timed(device: Device) -> None:
    def wrong(xp: Any, x: Any) -> Any:
        return x + x + (0 if xp is np else 1)

    def broken(xp: Any, x: Any) -> Any:
        raise IndexError("list index out of range")

    asked = [Question("add", ((100,),), "float64" if device.capabilities.float64 else "float32", f)
             for f in (wrong, broken)]  # fmt: skip
    if device.namespace() is np:
        asked = asked[1:]
    rows = measure(device, asked, 0, lambda _: None)
    assert all(row.ratio is None and row.error for row in rows)
    assert "list index" in rows[-1].error


def test_the_worst_come_first() -> None:
    rows = [Cliff("a", "f", ratio=2.0), Cliff("b", "f", ratio=0.5), Cliff("c", "f", error="wrong")]
    assert [row.question for row in worst_first(rows)] == ["c", "b", "a"]
    assert geometric_mean(rows) == pytest.approx(1)
    assert math.isnan(geometric_mean([]))


def test_the_command_keeps_what_it_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cliffs_cli, "_SHAPES", ((20, 3),))
    path = tmp_path / "cliffs.json"
    arguments = ["cliffs", "sum", "sort", "--device", "cpu", "--seconds", "0", "--limit", "3"]
    done = CliRunner().invoke(bench, [*arguments, "--json", str(path)])
    assert done.exit_code == 0, done.output
    assert "geometric mean" in done.output
    record = json.loads(path.read_text())
    assert 1 <= len(record["rows"]) <= 3
    refused = CliRunner().invoke(bench, ["cliffs", "nonsense"])
    assert refused.exit_code != 0
    assert "cumulative_sum" in refused.output
