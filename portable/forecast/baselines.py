"""Forecasts that need no network, which a network has to beat."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from portable.forecast.samples import Samples

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
