"""From a trace to samples: the split in time order, scaling, windows and what follows them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from portable.errors import DataError, ShapeError

TRAINING_SHARE = 0.8
"""The first 80 % of the samples train, the rest test."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """Takes `low` to 0 and `high` to 1; values beyond them go beyond."""

    low: float
    high: float

    @classmethod
    def fitted(cls, values: NDArray[np.float64]) -> Scaling:
        """The least and the greatest of the values become 0 and 1.

        Raises
        ------
        DataError
            If the values are all the same, so that nothing can be learnt from them.
        """
        low, high = float(values.min()), float(values.max())
        if low == high:
            raise DataError(f"the training part is {low:g} throughout: there is nothing to learn")
        return cls(low, high)

    @property
    def span(self) -> float:
        """What 1 stands for."""
        return self.high - self.low

    def apply(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """To normalised numbers."""
        return (values - self.low) / self.span

    def undo(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Back to the unit of the trace."""
        return values * self.span + self.low


@dataclass(frozen=True, slots=True)
class Samples:
    """Windows of a trace and what follows each.

    Attributes
    ----------
    inputs : ndarray of float64, shape (n, window)
    targets : ndarray of float64, shape (n, horizon)
    """

    inputs: NDArray[np.float64]
    targets: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.inputs)


@dataclass(frozen=True, slots=True)
class Split:
    """Normalised samples, all of `train` earlier than the targets of `test`."""

    scaling: Scaling
    train: Samples
    test: Samples


def windows(values: NDArray[np.float64], window: int, horizon: int = 1) -> Samples:
    """Every run of `window` values with the `horizon` values after it, in time order.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
    window, horizon : int
        At least 1.

    Returns
    -------
    Samples
        ``n - window - horizon + 1`` of them.

    Raises
    ------
    ShapeError
        If there are not enough values for one sample.
    """
    _check_length(len(values), window, horizon, 1)
    runs = np.lib.stride_tricks.sliding_window_view(values, window + horizon)
    return Samples(runs[:, :window], runs[:, window:])


def split_samples(
    trace: NDArray[np.float64], window: int, horizon: int = 1, scaling: Scaling | None = None
) -> Split:
    """Split a trace in time order and normalise it.

    With a horizon of 1, the first 80 % of the samples train and the rest test. With a longer one,
    the training samples whose targets reach into the test part are left out.

    Parameters
    ----------
    trace : ndarray of float64, shape (n,)
    window, horizon : int
        Values that go into a forecast, and intervals that it covers.
    scaling : Scaling, optional
        A model's; else it is fitted on the training part alone.

    Raises
    ------
    ShapeError
        If the trace is too short for a training and a test sample.
    DataError
        If the training part is constant.
    """
    samples = len(trace) - window - horizon + 1
    _check_length(len(trace), window, horizon, horizon + 1)
    # The place of the first target that is tested.
    boundary = window + max(int(TRAINING_SHARE * samples), horizon)
    scaling = scaling or Scaling.fitted(trace[:boundary])
    values = scaling.apply(trace)
    return Split(
        scaling,
        windows(values[:boundary], window, horizon),
        windows(values[boundary - window :], window, horizon),
    )


def _check_length(length: int, window: int, horizon: int, samples: int) -> None:
    if window < 1 or horizon < 1:
        raise ShapeError(f"window {window}, horizon {horizon}: both are at least 1")
    needed = window + horizon + samples - 1
    if length < needed:
        raise ShapeError(
            f"a trace of {length} values is too short: windows of {window} and a horizon of "
            f"{horizon} take at least {needed}"
        )
