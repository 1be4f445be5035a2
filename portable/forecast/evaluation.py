"""A forecast beside the baselines, on the part of a trace that was not trained on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from portable.forecast.forecaster import Forecast, Forecaster
from portable.forecast.traces import Samples, Split, split_samples

# Forecasts that need no network, which a network has to beat.

Forecasting = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""From windows (n, window) to forecasts (n, horizon)."""

PERSISTENCE: Final = "persistence"


def baselines(train: Samples) -> Mapping[str, Forecasting]:
    """Every baseline by name, those with coefficients fitted to the training samples."""
    window, horizon = train.inputs.shape[1], train.targets.shape[1]
    orders = sorted({1, window})
    return {
        PERSISTENCE: persistence(horizon),
        "window mean": window_mean(horizon),
        **{f"AR({order})": autoregression(train, order) for order in orders},
    }


def persistence(horizon: int) -> Forecasting:
    """The last value stays."""
    return lambda inputs: np.repeat(inputs[:, -1:], horizon, axis=1)


def window_mean(horizon: int) -> Forecasting:
    """The mean of the window comes."""
    return lambda inputs: np.repeat(inputs.mean(axis=1, keepdims=True), horizon, axis=1)


def autoregression(train: Samples, order: int) -> Forecasting:
    """A linear function of the last `order` values and 1, by least squares, for each step ahead.

    Each step has coefficients of its own (the "direct" forecast), so that errors do not add up.
    Where the samples do not determine them, the smallest are taken.
    """
    coefficients, *_ = np.linalg.lstsq(_regressors(train.inputs, order), train.targets)
    return lambda inputs: _regressors(inputs, order) @ coefficients


def _regressors(inputs: NDArray[np.float64], order: int) -> NDArray[np.float64]:
    return np.column_stack([inputs[:, -order:], np.ones(len(inputs))])


# How far forecasts are from what came.


@dataclass(frozen=True, slots=True)
class Score:
    """Errors of normalised forecasts, means over samples and steps.

    Attributes
    ----------
    mse : float
        Mean squared error.
    mae : float
        Mean absolute error.
    step_mse : tuple of float
        The mean squared error of each step ahead.
    """

    mse: float
    mae: float
    step_mse: tuple[float, ...]

    @classmethod
    def of(cls, forecast: NDArray[np.float64], truth: NDArray[np.float64]) -> Score:
        """Of forecasts and what came, both (n, horizon)."""
        errors = forecast - truth
        squares = np.square(errors)
        steps = tuple(float(mean) for mean in squares.mean(axis=0))
        return cls(float(squares.mean()), float(np.abs(errors).mean()), steps)

    @property
    def rmse(self) -> float:
        """The root of the mean squared error."""
        return float(np.sqrt(self.mse))


@dataclass(frozen=True, slots=True)
class Coverage:
    """How prediction intervals did.

    Attributes
    ----------
    nominal : float
        The share of values that were meant to fall inside.
    actual : float
        The share that did.
    width : float
        The mean width, normalised.
    """

    nominal: float
    actual: float
    width: float

    @classmethod
    def of(
        cls,
        nominal: float,
        lower: NDArray[np.float64],
        upper: NDArray[np.float64],
        truth: NDArray[np.float64],
    ) -> Coverage:
        """Of bounds and what came, all (n, horizon).

        Parameters
        ----------
        nominal : float
            How likely values are to lie within the bounds.
        lower, upper, truth : numpy.ndarray, shape (n, horizon)
        """
        inside = (lower <= truth) & (truth <= upper)
        return cls(nominal, float(inside.mean()), float((upper - lower).mean()))


# -- evaluation ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What came of a test.

    Attributes
    ----------
    model : Score
        Of the network.
    baselines : dict of str to Score
        Of each baseline, persistence first.
    coverage : Coverage or None
        Of the prediction intervals, if there are any.
    split : Split
        The samples, normalised.
    forecast : Forecast
        For the test samples, normalised.
    """

    model: Score
    baselines: dict[str, Score]
    coverage: Coverage | None
    split: Split
    forecast: Forecast

    @property
    def persistence(self) -> Score:
        """What every forecast has to beat."""
        return self.baselines[PERSISTENCE]


def evaluate(forecaster: Forecaster, trace: NDArray[np.float64]) -> Evaluation:
    """Test a forecast on the last 20 % of a trace, beside baselines fitted to the first 80 %.

    Parameters
    ----------
    forecaster : Forecaster
    trace : ndarray of float64, shape (n,)
        The one that it was trained on, or another.

    Raises
    ------
    ShapeError
        If the trace is too short.
    """
    settings = forecaster.settings
    split = split_samples(trace, settings.window, settings.horizon, settings.scaling)
    inputs, truth = split.test.inputs, split.test.targets
    predicted = forecaster.forecast_normalised(inputs)
    scores = {
        name: Score.of(baseline(inputs), truth) for name, baseline in baselines(split.train).items()
    }
    coverage = None
    if (
        settings.coverage is not None
        and predicted.lower is not None
        and predicted.upper is not None
    ):
        coverage = Coverage.of(settings.coverage, predicted.lower, predicted.upper, truth)
    return Evaluation(Score.of(predicted.values, truth), scores, coverage, split, predicted)
