"""Ways to train a forecast, by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from portable.nn.optimizers import SGD, AdamW, Optimizer
from portable.nn.schedules import Cosine, Schedule

__all__ = ["DEFAULT", "PRESETS", "Preset"]


@dataclass(frozen=True, slots=True)
class Preset:
    """How a forecast is trained.

    Attributes
    ----------
    about : str
        For the help text.
    hidden : tuple of int
        Widths of the hidden layers.
    relative : bool
        Whether the network sees the window as differences from its last value, beside that value,
        and forecasts the difference from it; else normalised values as they are.
    init : {"xavier", "uniform"}
        Initial weights.
    optimizer : Optimizer
    schedule : Schedule or None
        Of the learning rate.
    epochs, batch_size : int
    window : int
        Values that go into a forecast.
    """

    about: str
    hidden: tuple[int, ...]
    relative: bool
    init: str
    optimizer: Optimizer
    schedule: Schedule | None
    epochs: int
    batch_size: int
    window: int = 10


def _original(about: str, init: str, momentum: float = 0.0) -> Preset:
    """The variants differ in one thing each; sizes and rate are chosen to come near its figures."""
    return Preset(
        about=about,
        hidden=(20,),
        relative=False,
        init=init,
        optimizer=SGD(lr=0.01, momentum=momentum),
        schedule=None,
        epochs=15,
        batch_size=256,
    )


DEFAULT: Final = "adamw"

# The settings of the default were chosen on later parts of the training data of the original
# trace, with three splits in time order, never on its test part.
PRESETS: Final = {
    DEFAULT: Preset(
        about="differences from the last value, AdamW with a cosine schedule",
        hidden=(64,),
        relative=True,
        init="xavier",
        optimizer=AdamW(lr=1e-3, weight_decay=0.1),
        schedule=Cosine(),
        epochs=100,
        batch_size=64,
    ),
    "uniform-sgd": _original("weights uniform in [-1, 1], plain SGD", "uniform"),
    "xavier-sgd": _original("Xavier's weights, plain SGD", "xavier"),
    "xavier-momentum": _original("Xavier's weights, SGD with momentum", "xavier", 0.8),
}
"""The default, and the variants that forecasts of this kind began with."""
