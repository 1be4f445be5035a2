"""The command ``portable forecast``."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from portable import cli
from portable.forecast import DEFAULT, PRESETS, Forecaster, read_trace
from portable.forecast import cli as forecast_cli
from portable_data.starlink import synthetic_trace

LAST = " ".join(str(200 + 5 * i) for i in range(10))


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name, preset in PRESETS.items():
        monkeypatch.setitem(PRESETS, name, replace(preset, epochs=2, hidden=(8,)))
    monkeypatch.setattr(forecast_cli, "default_trace", lambda: synthetic_trace(300))


def _run(*arguments: str) -> Any:
    return CliRunner().invoke(cli.main, ["forecast", *arguments])


def _output(*arguments: str) -> str:
    done = _run(*arguments)
    assert done.exit_code == 0, done.output
    return str(done.output)


def _failure(*arguments: str) -> str:
    done = _run(*arguments)
    assert done.exit_code in (1, 2), done.output
    assert "Traceback" not in done.output
    return str(done.output)


def test_train_reports_and_keeps_a_model() -> None:
    output = _output("train")
    for row in ("model", "persistence", "window mean", "AR(1)", "AR(10)"):
        assert f"\n{row} " in output
    assert "RMSE, Mbit/s" in output
    assert "232 samples in" in output
    assert Path("forecast.safetensors").exists()
    assert Forecaster.load("forecast.safetensors").settings.preset == DEFAULT


def test_epochs_and_the_learning_rate_can_be_chosen() -> None:
    output = _output("train", "--epochs", "3", "--lr", "0", "--dtype", "f16")
    assert ": 3 epochs on" in output
    assert "float16" in output
    kept = Forecaster.load("forecast.safetensors").settings
    assert len(kept.losses) == 3
    assert kept.losses[0] == pytest.approx(kept.losses[2], rel=1e-3)


def test_evaluate_gives_the_same_figures_as_train() -> None:
    rows = [line for line in _output("train").splitlines() if line.startswith("model")]
    assert rows[0] in _output("evaluate")


def test_a_model_that_does_not_beat_persistence_is_called_that() -> None:
    output = _output("train", "--preset", "uniform-sgd")
    assert "does not beat persistence" in output
    assert "Use the last value instead" in output


def test_horizons_and_intervals_are_reported() -> None:
    unit = ("--unit", "[/x]")  # which tables are not to take for markup
    output = _output("train", "--horizon", "3", "--intervals", "--coverage", "0.8", *unit)
    assert "RMSE, [/x]" in output
    assert "[/x]" in _output("predict", "--last", "1 2 3 4 5 6 7 8 9 10", *unit)
    assert "RMSE by step ahead" in output
    assert "meant for 80 %" in output
    lines = _output("predict", "--last", LAST).splitlines()
    assert lines[0].split() == ["step", "Mbit/s", "80", "%", "from", "to"]
    assert [line.split()[0] for line in lines[1:]] == ["1", "2", "3"]


def test_predict_takes_commas_too() -> None:
    _output("train")
    values = _output("predict", "--last", LAST)
    assert values == _output("predict", "--last", LAST.replace(" ", ","))
    expected = Forecaster.load("forecast.safetensors").forecast(np.array(LAST.split(), float))
    assert values.split() == ["step", "Mbit/s", "1", f"{expected.values[0, 0]:.2f}"]


def test_plot_writes_a_png() -> None:
    pytest.importorskip("matplotlib", reason="Matplotlib is not installed")
    _output("train", "--intervals")
    assert _output("plot") == "Drawn in forecast.png.\n"
    assert Path("forecast.png").read_bytes().startswith(b"\x89PNG")


def test_plot_says_how_to_get_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    _output("train")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "pip install 'portable-arrays[bench]'" in _failure("plot")
    assert not Path("forecast.png").exists()


def test_compare_trains_every_preset() -> None:
    lines = _output("compare", "--seeds", "2").splitlines()
    assert [line.split()[0] for line in lines[2:5]] == list(PRESETS)[:3]
    assert any(line.startswith("persistence") for line in lines)


def test_generate_writes_a_trace() -> None:
    _output("generate", "a.json", "--length", "100", "--seed", "3")
    np.testing.assert_array_equal(read_trace("a.json"), synthetic_trace(100, 3))


def test_a_column_of_a_csv() -> None:
    values = synthetic_trace(100).tolist()
    lines = [f"{i},{value}" for i, value in enumerate(values)]
    Path("a.csv").write_text("\n".join(["time,mbps", *lines]))
    assert "72 samples in" in _output("train", "a.csv", "--column", "mbps")
    assert "the columns are time, mbps; name one" in _failure("train", "a.csv")


def test_nothing_is_kept_of_a_training_that_fails() -> None:
    Path("a.json").write_text(json.dumps([1.0, float("nan"), *range(50)]))
    assert "a.json: value 1 is nan" in _failure("train", "a.json")
    Path("a.json").write_text("[1, 2, 3]")
    assert "3 values is too short" in _failure("train", "a.json")
    assert [path.name for path in Path().iterdir()] == ["a.json"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "none.json"], "Error: none.json: No such file"),
        (["train", "--seed", "-1"], "'--seed': -1"),
        (["train", "--model", "no/such/folder.safetensors"], "is no folder to write to"),
        (["train", "--preset", "best"], "'best' is not one of"),
        (["train", "--epochs", "0"], "0 is not in the range"),
        (["train", "--lr", "-1"], "lr=-1.0"),
        (["train", "--horizon", "0"], "both are at least 1"),
        (["train", "--intervals", "--coverage", "90"], "coverage=90"),
        (["train", "--device", "abacus"], "abacus"),
        (["plot", "--show", "0"], "at least one interval"),
        (["compare", "--seeds", "0"], "at least one is needed"),
        (["generate", "a.csv"], "written as .json"),
        (["generate", "a.json", "--length", "3"], "at least 30"),
    ],
)
def test_errors_are_one_message(arguments: list[str], message: str) -> None:
    assert message in _failure(*arguments)


def test_last_values_are_numbers_and_as_many_as_the_window() -> None:
    _output("train")
    assert "'three'" in _failure("predict", "--last", "1 2 three")
    assert "takes 10 in a row" in _failure("predict", "--last", "1 2 3")
    assert "beyond float32" in _failure("predict", "--last", LAST.replace("200", "1e300"))


def test_a_trace_of_huge_numbers_is_reported() -> None:
    Path("a.json").write_text(json.dumps([1e300 * (i % 9) for i in range(300)]))
    assert "inf" in _output("train", "a.json")


@pytest.mark.parametrize("command", [["predict", "--last", LAST], ["evaluate"], ["plot"]])
def test_a_missing_model_says_what_makes_one(command: list[str]) -> None:
    assert "no forecast.safetensors; `portable forecast train`" in _failure(*command)


def test_a_damaged_model_is_named() -> None:
    Path("forecast.safetensors").write_bytes(b"no model")
    assert "forecast.safetensors is damaged" in _failure("evaluate")
