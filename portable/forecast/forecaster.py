"""A network that forecasts a trace, with all that it takes to use it."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from portable import namespace
from portable.backend import Device
from portable.errors import DataError, ShapeError
from portable.forecast.settings import Settings
from portable.nn import files
from portable.nn.history import History
from portable.nn.mlp import MLP


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
