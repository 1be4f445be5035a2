"""What has to be known to use a network as a forecast, and how a file keeps it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from portable.forecast.traces import Scaling

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
