"""What a test says, as tables and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from rich.markup import escape
from rich.table import Table

from portable.forecast.evaluation import Evaluation, Score
from portable.forecast.forecaster import Forecast


def score_table(evaluation: Evaluation, unit: str = "Mbit/s") -> Table:
    """Errors of the model and of every baseline, normalised and in the trace's unit."""
    table = Table(title="Errors on the test part")
    table.add_column("forecast")
    for heading in ("MSE", "RMSE", "MAE"):
        table.add_column(heading, justify="right")
    for heading in (f"MSE, ({unit})^2", f"RMSE, {unit}", f"MAE, {unit}", "MSE / persistence"):
        table.add_column(escape(heading), justify="right")
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
    table = Table(title=escape(f"RMSE by step ahead, {unit}"))
    scores = _scores(evaluation)
    span = evaluation.split.scaling.span
    table.add_column("step", justify="right")
    for name in scores:
        table.add_column(name, justify="right")
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
    table.add_column("forecast")
    for heading in ("mean", "least", "greatest"):
        table.add_column(heading, justify="right")
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
    for heading in columns:
        table.add_column(escape(heading), justify="right")
    for step, *values in zip(*columns.values(), strict=True):
        table.add_row(str(step), *(f"{value:.2f}" for value in values))
    return table
