"""Scaling over groups, with devices that are the same one several times."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from portable_bench.cli import bench
from portable_bench.group_scaling import Row


@pytest.mark.needs_processor
def test_scale(tmp_path: Path) -> None:
    json_path, plot = tmp_path / "rows.json", tmp_path / "plot.svg"
    arguments = ["scale", "--group", "cpu,cpu", "--layers", "1", "--images", "4"]
    done = CliRunner().invoke(
        bench, [*arguments, "--json", str(json_path), "--plot", str(plot)], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    record = json.loads(json_path.read_text())
    found = [(row["members"], row["scaling"]) for row in record["rows"]]
    assert found == [(1, "strong"), (2, "strong"), (2, "weak")]
    assert all(row["own"] > 0 and row["gathered"] > 0 for row in record["rows"])
    assert plot.stat().st_size > 1000
    assert "times one" in done.output


def test_the_gather_goes_on_beside_the_work() -> None:
    assert Row(2, "strong", 4.0, 0.0, 1.0).predicted == 4.25
    assert Row(2, "strong", 1.0, 0.0, 4.0).predicted == 4.25
