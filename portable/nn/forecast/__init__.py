"""Forecasts of a satellite link's bandwidth from its last values.

Train with `train`, test beside persistence and autoregressions with `evaluate`; the command is
``portable forecast``.
"""

from portable.nn.forecast.evaluation import Evaluation, evaluate
from portable.nn.forecast.forecaster import Forecast, Forecaster
from portable.nn.forecast.presets import DEFAULT, PRESETS, Preset
from portable.nn.forecast.samples import Samples, Scaling, Split, split_samples, windows
from portable.nn.forecast.scores import Coverage, Score
from portable.nn.forecast.settings import Settings
from portable.nn.forecast.traces import default_trace, read_trace
from portable.nn.forecast.training import train

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
