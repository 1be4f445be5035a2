"""A forecast beside the baselines, on the part of a trace that was not trained on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from portable.forecast.baselines import PERSISTENCE, baselines
from portable.forecast.forecaster import Forecast, Forecaster
from portable.forecast.samples import Split, split_samples
from portable.forecast.scores import Coverage, Score


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
