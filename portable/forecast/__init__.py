"""Forecasts of a satellite link's bandwidth from its last values.

Train with `train`, test beside persistence and autoregressions with `evaluate`; the command is
``portable forecast``.
"""

from portable.forecast.evaluation import Evaluation, evaluate
from portable.forecast.forecaster import Forecast, Forecaster
from portable.forecast.presets import DEFAULT, PRESETS, Preset
from portable.forecast.samples import Samples, Scaling, Split, split_samples, windows
from portable.forecast.scores import Coverage, Score
from portable.forecast.settings import Settings
from portable.forecast.traces import default_trace, read_trace
from portable.forecast.training import train

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
