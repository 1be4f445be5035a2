"""How far forecasts are from what came."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Score:
    """Errors of normalised forecasts, means over samples and steps.

    Attributes
    ----------
    mse : float
        Mean squared error.
    mae : float
        Mean absolute error.
    step_mse : tuple of float
        The mean squared error of each step ahead.
    """

    mse: float
    mae: float
    step_mse: tuple[float, ...]

    @classmethod
    def of(cls, forecast: NDArray[np.float64], truth: NDArray[np.float64]) -> Score:
        """Of forecasts and what came, both (n, horizon)."""
        errors = forecast - truth
        squares = np.square(errors)
        steps = tuple(float(mean) for mean in squares.mean(axis=0))
        return cls(float(squares.mean()), float(np.abs(errors).mean()), steps)

    @property
    def rmse(self) -> float:
        """The root of the mean squared error."""
        return float(np.sqrt(self.mse))


@dataclass(frozen=True, slots=True)
class Coverage:
    """How prediction intervals did.

    Attributes
    ----------
    nominal : float
        The share of values that were meant to fall inside.
    actual : float
        The share that did.
    width : float
        The mean width, normalised.
    """

    nominal: float
    actual: float
    width: float

    @classmethod
    def of(
        cls,
        nominal: float,
        lower: NDArray[np.float64],
        upper: NDArray[np.float64],
        truth: NDArray[np.float64],
    ) -> Coverage:
        """Of bounds and what came, all (n, horizon).

        Parameters
        ----------
        nominal : float
            How likely values are to lie within the bounds.
        lower, upper, truth : numpy.ndarray, shape (n, horizon)
        """
        inside = (lower <= truth) & (truth <= upper)
        return cls(nominal, float(inside.mean()), float((upper - lower).mean()))
