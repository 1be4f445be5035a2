"""The command ``portable forecast``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
from numpy.typing import NDArray

from portable.dtypes import float16, float32, float64
from portable.errors import PortableError
from portable.forecast.evaluation import Evaluation, Score, evaluate
from portable.forecast.forecaster import DEFAULT, PRESETS, Forecast, Forecaster, train
from portable.forecast.traces import default_trace, read_trace
from portable.system.files import write_whole
from portable.system.tables import Table, show
from portable_data.starlink import LENGTH, SEED, synthetic_trace

# What a test says, as tables and in words.


def score_table(evaluation: Evaluation, unit: str = "Mbit/s") -> Table:
    """Errors of the model and of every baseline, normalised and in the trace's unit."""
    table = Table(title="Errors on the test part")
    table.add_columns("forecast")
    table.add_columns("MSE", "RMSE", "MAE", right=True)
    in_units = f"MSE, ({unit})^2", f"RMSE, {unit}", f"MAE, {unit}"
    table.add_columns(*in_units, "MSE / persistence", right=True)
    span = evaluation.split.scaling.span
    for name, score in _scores(evaluation).items():
        table.add_row(name, *_cells(score, span, evaluation.persistence))
    return table


def _scores(evaluation: Evaluation) -> dict[str, Score]:
    return {"model": evaluation.model, **evaluation.baselines}


def _cells(score: Score, span: float, persistence: Score) -> list[str]:
    ratio = score.mse / persistence.mse if persistence.mse else float("nan")
    return [
        f"{score.mse:.5f}",
        f"{score.rmse:.4f}",
        f"{score.mae:.4f}",
        f"{score.mse * span * span:.1f}",
        f"{score.rmse * span:.2f}",
        f"{score.mae * span:.2f}",
        f"{ratio:.3f}",
    ]


def step_table(evaluation: Evaluation, unit: str = "Mbit/s") -> Table:
    """The root of the mean squared error of each step ahead, in the trace's unit."""
    table = Table(f"RMSE by step ahead, {unit}")
    scores = _scores(evaluation)
    span = evaluation.split.scaling.span
    table.add_columns("step", right=True)
    for name in scores:
        table.add_columns(name, right=True)
    for step in range(len(evaluation.model.step_mse)):
        errors = [span * score.step_mse[step] ** 0.5 for score in scores.values()]
        table.add_row(str(step + 1), *(f"{error:.2f}" for error in errors))
    return table


def verdict(evaluation: Evaluation) -> str:
    """In words: whether the model is worth having."""
    mse, least = evaluation.model.mse, evaluation.persistence.mse
    if not mse < least:
        return (
            f"The model does not beat persistence (MSE {mse:.5f} against {least:.5f}): it is no "
            "forecast. Use the last value instead."
        )
    text = f"The model beats persistence: its MSE is {100 * (1 - mse / least):.1f} % lower."
    best = min(evaluation.baselines, key=lambda name: evaluation.baselines[name].mse)
    if evaluation.baselines[best].mse <= mse:
        text += f" It does not beat {best} (MSE {evaluation.baselines[best].mse:.5f})."
    return text


def coverage_line(evaluation: Evaluation, unit: str = "Mbit/s") -> str:
    """How many values the prediction intervals held, if there are any."""
    coverage = evaluation.coverage
    if coverage is None:
        return ""
    return (
        f"Prediction intervals meant for {100 * coverage.nominal:.0f} % of the values held "
        f"{100 * coverage.actual:.1f} %; their mean width is "
        f"{coverage.width * evaluation.split.scaling.span:.1f} {unit}."
    )


def comparison(results: Mapping[str, Sequence[Evaluation]]) -> Table:
    """Normalised test MSE of several trainings of each preset, beside the baselines."""
    table = Table(title="MSE on the test part, normalised")
    table.add_columns("forecast")
    table.add_columns("mean", "least", "greatest", right=True)
    for name, evaluations in results.items():
        _add_spread(table, name, [evaluation.model.mse for evaluation in evaluations])
    first = next(iter(results.values()))[0]
    for name, score in first.baselines.items():
        _add_spread(table, name, [score.mse])
    return table


def _add_spread(table: Table, name: str, values: Sequence[float]) -> None:
    spread = (np.mean(values), min(values), max(values))
    table.add_row(name, *(f"{value:.5f}" for value in spread[: 1 if len(values) == 1 else 3]))


def forecast_table(forecast: Forecast, coverage: float | None, unit: str = "Mbit/s") -> Table:
    """The first forecast, step by step, with its bounds if there are any.

    Parameters
    ----------
    forecast : Forecast
    coverage : float or None
        How likely values are to lie within the bounds.
    unit : str
        Of the trace.
    """
    table = Table()
    columns = {"step": range(1, forecast.values.shape[1] + 1), unit: forecast.values[0]}
    if coverage is not None and forecast.lower is not None and forecast.upper is not None:
        columns |= {f"{100 * coverage:.0f} % from": forecast.lower[0], "to": forecast.upper[0]}
    table.add_columns(*columns, right=True)
    for step, *values in zip(*columns.values(), strict=True):
        table.add_row(str(step), *(f"{value:.2f}" for value in values))
    return table


# -- the command -----------------------------------------------------------------------------------

_MODEL: Final = "forecast.safetensors"
_DTYPES: Final = (float16, float32, float64)
_PICTURE: Final = "forecast.png"

_File = click.Path(dir_okay=False, path_type=Path)
_Decorated = Callable[..., Any]


def _taking_a_trace(command: _Decorated) -> _Decorated:
    """The argument and the option by which every command takes its trace."""
    command = click.option("--column", help="Of a CSV: its heading, or its number from 1.")(command)
    return click.argument("trace", required=False, type=_File)(command)


_model_option = click.option(
    "--model", default=_MODEL, show_default=True, type=_File, help="The model file."
)
_device_option = click.option("--device", help="A device's name; the one in use, if left out.")
_preset_option = click.option(
    "--preset",
    default=DEFAULT,
    show_default=True,
    type=click.Choice(list(PRESETS)),
    help="; ".join(f"{name}: {preset.about}" for name, preset in PRESETS.items()) + ".",
)
_unit_option = click.option("--unit", default="Mbit/s", show_default=True, help="Of the trace.")
_seed_option = click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(min=0),
    help="Of initial weights and shuffles.",
)


@click.group()
def forecast() -> None:
    """Forecast the bandwidth of a satellite link from its last values.

    A TRACE is a file of one number an interval: a JSON array (.json), a column of a CSV (.csv) or
    a NumPy array (.npy); the shipped synthetic trace, if left out. The first 80 % of its samples
    train, the rest test.
    """


@forecast.command("train")
@_taking_a_trace
@_model_option
@_preset_option
@click.option("--horizon", default=1, show_default=True, help="Intervals to forecast at once.")
@click.option("--intervals", is_flag=True, help="Give prediction intervals too.")
@click.option("--coverage", default=0.9, show_default=True, help="What the intervals are to hold.")
@click.option(
    "--dtype",
    default="f32",
    show_default=True,
    type=click.Choice([name for kind in _DTYPES for name in (kind.short, kind.name)]),
    help="Of the network.",
)
@click.option("--epochs", type=click.IntRange(min=1), help="Instead of the preset's.")
@click.option("--lr", type=float, help="The learning rate, instead of the preset's.")
@_seed_option
@_device_option
@_unit_option
def train_command(
    trace: Path | None,
    column: str | None,
    model: Path,
    unit: str,
    intervals: bool,
    coverage: float,
    **training: Any,
) -> None:
    """Train a model on a TRACE, test it beside the baselines, and keep it."""
    _check_writable("--model", model)
    with _reported():
        values = _values(trace, column)
        # The other options are called as `train` calls them.
        forecaster = train(values, coverage=coverage if intervals else None, **training)
        evaluation = evaluate(forecaster, values)
        _report_training(forecaster, evaluation)
        _report(evaluation, unit)
        forecaster.save(model)
    click.echo(f"Kept in {model}.")


@forecast.command("evaluate")
@_taking_a_trace
@_model_option
@_device_option
@_unit_option
def evaluate_command(
    trace: Path | None, column: str | None, model: Path, device: str | None, unit: str
) -> None:
    """Test a model on the last 20 % of a TRACE, beside the baselines."""
    with _reported():
        _report(evaluate(_kept(model, device), _values(trace, column)), unit)


@forecast.command("predict")
@click.option("--last", required=True, help="The latest values, the newest last: '240.1 250 ...'.")
@_model_option
@_device_option
@_unit_option
def predict_command(last: str, model: Path, device: str | None, unit: str) -> None:
    """Forecast what comes after the last values."""
    with _reported():
        forecaster = _kept(model, device)
        values = forecaster.forecast(_numbers(last))
    show(forecast_table(values, forecaster.settings.coverage, unit))


@forecast.command("plot")
@_taking_a_trace
@_model_option
@click.option("--out", default=_PICTURE, show_default=True, type=_File, help="The PNG to write.")
@click.option("--show", "shown", default=200, show_default=True, help="How many intervals.")
@_device_option
@_unit_option
def plot_command(
    trace: Path | None,
    column: str | None,
    model: Path,
    out: Path,
    shown: int,
    device: str | None,
    unit: str,
) -> None:
    """Draw a model's forecasts of the test part of a TRACE, and how its loss fell."""
    _check_writable("--out", out)
    if shown < 1:
        raise click.UsageError(f"--show {shown}: at least one interval is needed")
    with _reported():
        from portable.forecast.plots import picture

        forecaster = _kept(model, device)
        evaluation = evaluate(forecaster, _values(trace, column))
        write_whole(out, picture(forecaster, evaluation, shown, unit))
    click.echo(f"Drawn in {out}.")


@forecast.command("compare")
@_taking_a_trace
@click.option("--seeds", default=5, show_default=True, help="How often to train each preset.")
@_device_option
def compare_command(trace: Path | None, column: str | None, seeds: int, device: str | None) -> None:
    """Train every preset several times, and set its errors beside the baselines'."""
    if seeds < 1:
        raise click.UsageError(f"--seeds {seeds}: at least one is needed")
    with _reported():
        values = _values(trace, column)
        results = {
            preset: [
                evaluate(train(values, preset=preset, device=device, seed=seed), values)
                for seed in range(seeds)
            ]
            for preset in PRESETS
        }
    show(comparison(results))


@forecast.command("generate")
@click.argument("out", type=_File)
@click.option("--length", default=LENGTH, show_default=True, help="Number of intervals.")
@click.option("--seed", default=SEED, show_default=True, help="Chooses the trace.")
def generate_command(out: Path, length: int, seed: int) -> None:
    """Write a synthetic trace to OUT, a JSON file."""
    _check_writable("OUT", out)
    if out.suffix.lower() != ".json":
        raise click.UsageError(f"OUT {out}: traces are written as .json")
    with _reported():
        values = synthetic_trace(length, seed)
        write_whole(out, (json.dumps(values.tolist()) + "\n").encode())
    click.echo(f"{length} intervals in {out}.")


# -- what commands share ------------------------------------------------------------------------


def _report_training(forecaster: Forecaster, evaluation: Evaluation) -> None:
    history, split = forecaster.history, evaluation.split
    assert history is not None
    click.echo(
        f"{forecaster.network!r}: {history.epochs} epochs on {len(split.train)} samples in "
        f"{history.seconds:.1f} s; {len(split.test)} samples to test."
    )
    if history.stopped == "interrupted":
        click.echo("Interrupted: going on with what was learnt.")


def _report(evaluation: Evaluation, unit: str) -> None:
    show(score_table(evaluation, unit))
    if len(evaluation.model.step_mse) > 1:
        show(step_table(evaluation, unit))
    if evaluation.coverage is not None:
        click.echo(coverage_line(evaluation, unit))
    click.echo(verdict(evaluation))


def _values(trace: Path | None, column: str | None) -> NDArray[np.float64]:
    return default_trace() if trace is None else read_trace(trace, column)


def _numbers(text: str) -> NDArray[np.float64]:
    words = text.replace(",", " ").split()
    try:
        return np.array([float(word) for word in words])
    except ValueError as error:
        raise click.UsageError(f"--last: {error}; give numbers, such as '240.1 250'") from None


def _check_writable(option: str, path: Path) -> None:
    """Found out before the work rather than after it."""
    folder = path.absolute().parent
    if not os.access(folder, os.W_OK):
        raise click.UsageError(f"{option} {path}: {folder} is no folder to write to")


def _kept(model: Path, device: str | None) -> Forecaster:
    if not model.exists():
        raise FileNotFoundError(f"there is no {model}; `portable forecast train` writes one")
    return Forecaster.load(model, device=device)


@contextmanager
def _reported() -> Iterator[None]:
    """What the user can put right, as one message instead of a traceback."""
    try:
        yield
    except BrokenPipeError:
        raise  # whoever read the output has seen enough: click ends quietly
    except OSError as error:
        text = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        raise click.ClickException(text) from error
    except (PortableError, ValueError, ImportError) as error:
        raise click.ClickException(str(error)) from error
