"""A forecast as a picture: prediction against truth, and how the loss fell."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from portable.forecast.evaluation import Evaluation
from portable.forecast.forecaster import Forecaster

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DPI = 120


def picture(forecaster: Forecaster, evaluation: Evaluation, shown: int, unit: str) -> bytes:
    """A PNG of the last `shown` test intervals, one step ahead, and of the training loss.

    Parameters
    ----------
    forecaster : Forecaster
    evaluation : Evaluation
        Of test intervals.
    shown : int
        How many of them.
    unit : str
        Of the trace.

    Raises
    ------
    ImportError
        If Matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "drawing needs Matplotlib: pip install 'portable-arrays[bench]'"
        ) from error
    figure = Figure(figsize=(11, 7), layout="constrained")
    above, below = figure.subplots(2, height_ratios=[3, 2])
    _draw_forecast(above, evaluation, shown, unit)
    _draw_losses(below, forecaster)
    out = BytesIO()
    figure.savefig(out, format="png", dpi=_DPI)
    return out.getvalue()


def _draw_forecast(axes: Axes, evaluation: Evaluation, shown: int, unit: str) -> None:
    undo = evaluation.split.scaling.undo
    truth = undo(evaluation.split.test.targets[:, 0])
    predicted = evaluation.forecast
    places = np.arange(len(truth))[-shown:]
    axes.plot(places, truth[places], color="0.3", linewidth=1, label="truth")
    axes.plot(places, undo(predicted.values[places, 0]), linewidth=1, label="forecast")
    if (
        predicted.lower is not None
        and predicted.upper is not None
        and evaluation.coverage is not None
    ):
        lower, upper = undo(predicted.lower[places, 0]), undo(predicted.upper[places, 0])
        label = f"{100 * evaluation.coverage.nominal:.0f} % interval"
        axes.fill_between(places, lower, upper, alpha=0.2, linewidth=0, label=label)
    error = evaluation.model.step_mse[0] ** 0.5 * evaluation.split.scaling.span
    axes.set(
        title=f"Next interval, test part (RMSE {error:.1f} {unit})",
        xlabel="interval of the test part",
        ylabel=unit,
    )
    axes.legend(loc="best")
    axes.margins(x=0)


def _draw_losses(axes: Axes, forecaster: Forecaster) -> None:
    losses = forecaster.settings.losses
    axes.plot(np.arange(1, len(losses) + 1), losses)
    kind = "mean squared error" if forecaster.settings.coverage is None else "loss with bounds"
    axes.set(title="Training", xlabel="epoch", ylabel=f"{kind}, normalised")
    if losses and min(losses) > 0:
        axes.set_yscale("log")
    axes.margins(x=0)
