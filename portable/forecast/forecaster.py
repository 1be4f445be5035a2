"""A network that forecasts a trace, with all that it takes to use it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from portable import lang as kl
from portable import namespace
from portable.backend import Device
from portable.errors import DataError, ShapeError
from portable.forecast.traces import Samples, Scaling, split_samples
from portable.lang.function import function
from portable.nn import files
from portable.nn.history import History
from portable.nn.losses import Loss, mse, pinball, squared
from portable.nn.optimizers import SGD, AdamW
from portable.nn.schedules import Cosine, Schedule
from portable.nn.sequential import MLP
from portable.nn.training import fit

# What has to be known to use a network as a forecast, and how a file keeps it.

_KEY: Final = "forecast"
"""Where a model file's metadata hold the settings."""

_CENTRE: Final = 0.5
"""What is taken off the last value as an input, so that inputs lie around zero."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What has to be known to use a network as a forecast.

    Attributes
    ----------
    window, horizon : int
        Values that go in, and intervals that come out.
    relative : bool
        See `Preset`.
    scaling : Scaling
        Fitted on the training part.
    coverage : float or None
        The share of values that is meant to fall within the prediction intervals, for which the
        network gives a lower bound, the forecast and an upper bound for each step; None if it
        gives the forecast alone.
    preset : str
    seed : int
    losses : tuple of float
        The training loss of each epoch.
    """

    window: int
    horizon: int
    relative: bool
    scaling: Scaling
    coverage: float | None
    preset: str
    seed: int
    losses: tuple[float, ...]

    @property
    def outputs(self) -> int:
        """How many numbers the network gives."""
        return self.horizon * (1 if self.coverage is None else 3)

    def features(self, inputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the network sees of normalised windows (n, window)."""
        if not self.relative:
            return inputs
        last = inputs[:, -1:]
        return np.hstack([inputs[:, :-1] - last, last - _CENTRE])

    def reference(self, inputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the network's outputs are added to, (n, 1)."""
        return inputs[:, -1:] if self.relative else np.zeros((len(inputs), 1))

    def to_metadata(self) -> dict[str, str]:
        """For a model file."""
        return {_KEY: json.dumps(asdict(self))}

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str]) -> Settings:
        """What `to_metadata` gave.

        Raises
        ------
        ValueError
            If there is nothing of the kind, or it is damaged.
        """
        if _KEY not in metadata:
            raise ValueError("a network, but no forecast: 'portable forecast train' writes those")
        try:
            stored = json.loads(metadata[_KEY])
            return cls(
                window=_count(stored["window"]),
                horizon=_count(stored["horizon"]),
                relative=bool(stored["relative"]),
                scaling=_scaling(stored["scaling"]),
                coverage=_coverage(stored["coverage"]),
                preset=str(stored["preset"]),
                seed=int(stored["seed"]),
                losses=tuple(map(float, stored["losses"])),
            )
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ValueError(f"damaged settings of a forecast: {error!r}") from None


def _count(value: Any) -> int:
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{value!r} is no count")
    return value


def _coverage(value: Any) -> float | None:
    if value is None or 0 < float(value) < 1:
        return None if value is None else float(value)
    raise ValueError(f"{value!r} is no share")


def _scaling(stored: Mapping[str, Any]) -> Scaling:
    scaling = Scaling(float(stored["low"]), float(stored["high"]))
    if not 0 < scaling.span < float("inf"):
        raise ValueError(f"{scaling} takes nothing to 0 and 1")
    return scaling


# -- forecaster ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Forecast:
    """Values for the next intervals, each array (n, horizon).

    Attributes
    ----------
    values : ndarray of float64
        What is expected, in the mean.
    lower, upper : ndarray of float64 or None
        Bounds of the prediction intervals.
    """

    values: NDArray[np.float64]
    lower: NDArray[np.float64] | None = None
    upper: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class Forecaster:
    """A trained network and its settings.

    Attributes
    ----------
    network : MLP
    settings : Settings
    history : History or None
        How the training went; None for a model that was loaded.
    """

    network: MLP
    settings: Settings
    history: History | None = None

    def __post_init__(self) -> None:
        sizes, settings = self.network.sizes, self.settings
        if (sizes[0], sizes[-1]) != (settings.window, settings.outputs):
            raise ShapeError(
                f"a network {list(sizes)}; its settings ask for windows of {settings.window} and "
                f"{settings.outputs} outputs"
            )

    def forecast(self, last: ArrayLike) -> Forecast:
        """Forecast what follows windows of values in the unit of the trace.

        Parameters
        ----------
        last : array_like, shape (window,) or (n, window)
            The latest values, the newest last.

        Returns
        -------
        Forecast
            Of shape (1, horizon) or (n, horizon).

        Raises
        ------
        ShapeError
            If the windows have another width.
        DataError
            If a value is not finite, or too large for the network's dtype.
        """
        windows = np.atleast_2d(np.asarray(last, np.float64))
        if windows.ndim != 2 or windows.shape[1] != self.settings.window:
            raise ShapeError(
                f"last values of shape {np.shape(last)}; this model takes "
                f"{self.settings.window} in a row"
            )
        bad = np.argwhere(~np.isfinite(windows))
        if len(bad):
            row, column = bad[0]
            raise DataError(f"value {column} of window {row} is {windows[row, column]}")
        scaling = self.settings.scaling
        values = self.forecast_normalised(scaling.apply(windows))
        bounds = [None if b is None else scaling.undo(b) for b in (values.lower, values.upper)]
        return Forecast(scaling.undo(values.values), *bounds)

    def forecast_normalised(self, inputs: NDArray[np.float64]) -> Forecast:
        """Forecast from and in normalised values; inputs (n, window)."""
        settings = self.settings
        outputs = self._outputs(settings.features(inputs))
        outputs += settings.reference(inputs)
        if settings.coverage is None:
            return Forecast(outputs)
        steps = outputs.reshape(len(inputs), settings.horizon, 3)
        # Quantiles learnt apart may cross; sorting them never makes them worse (Chernozhukov,
        # Fernandez-Val and Galichon, 2010).
        bounds = np.sort(steps[..., ::2], axis=2)
        return Forecast(steps[..., 1], bounds[..., 0], bounds[..., 1])

    def _outputs(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        network = self.network
        with np.errstate(over="ignore"):
            rounded = features.astype(network.dtype.numpy)
        if not np.isfinite(rounded).all():
            raise DataError(
                f"values too far from the trace that the model was trained on: normalised they "
                f"reach {np.abs(features).max():.3g}, beyond {network.dtype.name}"
            )
        there = namespace.asarray(rounded, device=network.device)
        return namespace.to_numpy(network(there)).astype(np.float64)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write network and settings to one safetensors file, whole or not at all."""
        self.network.save(path, metadata=self.settings.to_metadata())

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, device: str | Device | None = None
    ) -> Forecaster:
        """Read what `save` wrote.

        Raises
        ------
        OSError
            If the file cannot be read.
        ModelFileError
            If it is damaged, or holds no forecast.
        """
        network = MLP.load(path, device=device)
        with files.blamed(path):
            return cls(network, Settings.from_metadata(files.metadata(path)))


# Ways to train a forecast, by name.


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
    optimizer : SGD or AdamW
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
    optimizer: SGD | AdamW
    schedule: Schedule | None
    epochs: int
    batch_size: int
    window: int = 10

    def changed(self, epochs: int | None, lr: float | None) -> Preset:
        """The same with other epochs and another learning rate, where they are given."""
        optimizer = self.optimizer if lr is None else replace(self.optimizer, lr=lr)
        return replace(self, epochs=self.epochs if epochs is None else epochs, optimizer=optimizer)


def _original(about: str, init: str, momentum: float = 0.0) -> Preset:
    """A variant of the original, which differs from the one before in one thing.

    Width, rate, momentum and epochs of the original are not known; these come near its errors,
    0.0456, 0.0130 and 0.0100.
    """
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

# The settings of the default were chosen among some twenty by the mean error of three splits in
# time order, all within the training part of the original trace.
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


# Training a forecast by a preset.


@function
def squared_or_pinball(error: kl.Scalar, level: kl.Scalar) -> Any:
    """The square where the level is 0, which is least at the mean; else the pinball loss."""
    square, square_slope = squared(error, level)
    tilted, tilted_slope = pinball(error, level)
    return kl.where(level > 0, tilted, square), kl.where(level > 0, tilted_slope, square_slope)


def mean_and_bounds(coverage: float) -> Loss:
    """For three outputs to each target: a lower bound, the mean, and an upper bound.

    The bounds are the quantiles that leave ``(1 - coverage) / 2`` of the values beyond each. The
    middle output stays the mean rather than the median, so that the forecast is as good in squared
    error as one without bounds, or nearly: 0.00564 beside 0.00555 on the original trace, where the
    median gives 0.0058.

    Raises
    ------
    ValueError
        If the coverage is not between 0 and 1.
    """
    if not 0 < coverage < 1:
        raise ValueError(f"coverage={coverage!r}: a share between 0 and 1, such as 0.9")
    tail = (1 - coverage) / 2
    return Loss("mean and bounds", squared_or_pinball, (tail, 0.0, 1 - tail))


def train(
    trace: NDArray[np.float64],
    *,
    preset: str = DEFAULT,
    horizon: int = 1,
    coverage: float | None = None,
    dtype: str = "float32",
    device: str | Device | None = None,
    seed: int = 0,
    epochs: int | None = None,
    lr: float | None = None,
    progress: bool | None = None,
) -> Forecaster:
    """Train a forecast on the first 80 % of a trace.

    Parameters
    ----------
    trace : ndarray of float64, shape (n,)
        One value an interval.
    preset : str
        A name of `PRESETS`.
    horizon : int
        How many intervals to forecast at once.
    coverage : float, optional
        Give prediction intervals that are to hold this share of the values, such as 0.9.
    dtype : {"float32", "float16", "float64"}
    device : str or Device, optional
        Where to train; the device in use if left out.
    seed : int
        Of initial weights and shuffles.
    epochs : int, optional
        Passes over the samples, instead of the preset's.
    lr : float, optional
        The learning rate, instead of the preset's.
    progress : bool, optional
        Whether to show a progress bar; if left out, where there is a terminal.

    Returns
    -------
    Forecaster
        Usable also where the training was interrupted; ``history`` says so.

    Raises
    ------
    ShapeError
        If the trace is too short.
    DataError
        If the trace is constant, or the training diverged.
    ValueError
        For an unknown preset, a coverage that is not between 0 and 1, or epochs below 1.
    """
    chosen = _known(preset).changed(epochs, lr)
    loss = mse if coverage is None else mean_and_bounds(coverage)
    split = split_samples(trace, chosen.window, horizon)
    settings = Settings(
        chosen.window, horizon, chosen.relative, split.scaling, coverage, preset, seed, ()
    )
    sizes = [chosen.window, *chosen.hidden, settings.outputs]
    network = MLP(sizes, dtype=dtype, device=device, init=chosen.init, seed=seed)
    history = _fit(network, settings, chosen, loss, split.train, progress)
    return Forecaster(network, replace(settings, losses=tuple(history.train)), history)


def _fit(
    network: MLP,
    settings: Settings,
    preset: Preset,
    loss: Loss,
    samples: Samples,
    progress: bool | None,
) -> History:
    kind = network.dtype.numpy
    targets = samples.targets - settings.reference(samples.inputs)
    history = fit(
        network,
        settings.features(samples.inputs).astype(kind),
        targets.astype(kind),
        loss=loss,
        optimizer=preset.optimizer,
        schedule=preset.schedule,
        epochs=preset.epochs,
        batch_size=preset.batch_size,
        seed=settings.seed,
        progress=progress,
    )
    if history.stopped == "diverged":
        raise DataError(
            f"the training diverged in epoch {history.epochs}: look for outliers in the trace, or "
            "take another preset or seed"
        )
    return history


def _known(preset: str) -> Preset:
    if preset not in PRESETS:
        raise ValueError(f"preset={preset!r}; there are {', '.join(PRESETS)}")
    return PRESETS[preset]
