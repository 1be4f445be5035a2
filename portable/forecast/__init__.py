"""Forecasts of a satellite link's bandwidth from its last values.

Train with `train`, test beside persistence and autoregressions with `evaluate`; the command is
``portable forecast``.
"""

from portable.forecast.evaluation import Coverage, Evaluation, Score, evaluate
from portable.forecast.forecaster import (
    DEFAULT,
    PRESETS,
    Forecast,
    Forecaster,
    Preset,
    Settings,
    train,
)
from portable.forecast.traces import (
    Samples,
    Scaling,
    Split,
    default_trace,
    read_trace,
    split_samples,
    windows,
)

__all__ = [
    "DEFAULT",
    "PRESETS",
    "Coverage",
    "Evaluation",
    "Forecast",
    "Forecaster",
    "Preset",
    "Samples",
    "Scaling",
    "Score",
    "Settings",
    "Split",
    "default_trace",
    "evaluate",
    "read_trace",
    "split_samples",
    "train",
    "windows",
]
