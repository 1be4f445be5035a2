"""Scaling over groups, with devices that are the same one several times."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from portable_bench.cli import bench
from portable_bench.gf2_scaling import Costs, predicted
from portable_bench.group_scaling import one_after_the_other
from portable_bench.group_scaling import predicted as predicted_step


@pytest.mark.needs_processor
def test_scale(tmp_path: Path) -> None:
    json_path, plot = tmp_path / "rows.json", tmp_path / "plot.svg"
    arguments = ["scale", "--group", "cpu,cpu", "--layers", "1", "--images", "2"]
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


@pytest.mark.needs_processor
def test_training(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    arguments = ["scale", "--group", "cpu,cpu", "--training", "9x8-16-4"]
    done = CliRunner().invoke(bench, [*arguments, "--json", str(path)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    record = json.loads(path.read_text())
    assert (record["job"], record["widths"], record["batch"]) == ("training", [8, 16, 4], 9)
    found = [(row["members"], row["scaling"]) for row in record["rows"]]
    assert found == [(1, "strong"), (2, "strong"), (2, "weak")]
    assert all(row["collectives"] > 0 for row in record["rows"][1:])
    wrong = CliRunner().invoke(bench, [*arguments[:3], "--training", "8-4"])
    assert "expected one like 8192x1024-4096-1024" in wrong.output


def test_half_of_the_sums_goes_on_beside_the_way_back() -> None:
    assert predicted_step(5.0, 1.0) == 5.5
    assert predicted_step(5.0, 4.0) == 8.0


def test_gathers_go_on_beside_the_next_layers() -> None:
    """A fifth of what goes on beside something else is lost."""
    assert one_after_the_other([2.0, 2.0], [1.0, 1.0]) == pytest.approx(5 + 1 / 5)
    assert one_after_the_other([1.0, 1.0], [4.0, 4.0]) == pytest.approx(9 + 1 / 5)
    assert one_after_the_other([1.0, 5.0], [2.0, 1.0]) == pytest.approx(7 + 2 / 5)


@pytest.mark.needs_processor
def test_scale_of_eliminations(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    arguments = ["scale", "--group", "cpu,cpu", "--gf2", "1300x600x200", "--json", str(path)]
    done = CliRunner().invoke(bench, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    rows = json.loads(path.read_text())["rows"]
    assert [row["members"] for row in rows] == [1, 2]
    assert all(row["whole"] > 0 and row["predicted"] > 0 for row in rows)
    refused = CliRunner().invoke(bench, ["scale", "--group", "cpu", "--gf2", "1300"])
    assert refused.exit_code == 2
    assert "COLUMNSxELIMINATORSxROWS" in refused.output


def test_the_model_of_eliminations_is_their_schedule() -> None:
    free = Costs(0, 0, 0, 1, 0)
    assert predicted(5, 1, free) == 4 + 3 + 2 + 1
    # One of three stripes is followed by two, of which each member has one.
    assert predicted(3, 2, free) == 2
    # One applies pivots of a stripe to all after it at once; of two, the second does nothing else.
    assert predicted(3, 1, Costs(0, 1, 2, 0, 0)) == 2 * (1 + 2)
    assert predicted(4, 4, Costs(3, 0, 0, 0, 2)) == 4 * (3 + 2)
