"""Synthetic traces that look like the downlink bandwidth of a low-orbit satellite terminal.

A trace is one number an interval, in Mbit/s. The satellites are reallocated every 15 intervals, so
that the bandwidth is a staircase on a slow drift, with a dip where the terminal is handed over and
noise that comes in calm and rough spells. The constants are fitted to the statistics that
`portable forecast` is made for: the autocorrelation falls from 0.915 at lag 1 to 0.6 at lag 10, has
a small bump at lag 15, and 9 % of the steps are jumps by more than 50 Mbit/s.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

MEAN: Final = 229.0
STD: Final = 72.0
MINIMUM: Final = 9.0
MAXIMUM: Final = 406.0
REALLOCATION: Final = 15
"""Intervals from one allocation of satellites to the next."""

LENGTH: Final = 3394
SEED: Final = 28
"""Of the default trace, whose statistics are close to those wanted."""

_SHORTEST: Final = 2 * REALLOCATION

# Shares of the variance.
_DRIFT: Final = 0.66
_STAIRS: Final = 0.265
_DIPS: Final = 0.035
_NOISE: Final = 0.04

_MARGIN: Final = 15.0  # Mbit/s
_DRIFT_MEMORY: Final = 45.0  # intervals
_NOISE_MEMORY: Final = 1.0
_SPELL: Final = 40.0
_DIPPED: Final = 0.8  # of the handovers
_ROUGHNESS: Final = 1.7  # standard deviation of the logarithm of the noise's size


def synthetic_trace(length: int = LENGTH, seed: int = SEED) -> NDArray[np.float64]:
    """A trace of random bandwidths, the same for the same length and seed.

    Parameters
    ----------
    length : int
        Number of intervals, at least 30.
    seed : int
        Chooses the trace.

    Returns
    -------
    ndarray of float64, shape (length,)
        Mbit/s between 9 and 406, with mean 229 and standard deviation 72, rounded to 0.01.

    Raises
    ------
    ValueError
        If the length is less than 30 (two reallocations), or the seed is negative.
    """
    if length < _SHORTEST or seed < 0:
        raise ValueError(
            f"length {length}, seed {seed}: at least {_SHORTEST} intervals (two reallocations) "
            "and a seed that is not negative are needed"
        )
    random = np.random.Generator(np.random.Philox(seed))
    phase = (np.arange(length) + random.integers(REALLOCATION)) % REALLOCATION
    total = (
        np.sqrt(_DRIFT) * _standardised(_remembering(random.standard_normal(length), _DRIFT_MEMORY))
        + np.sqrt(_STAIRS) * _standardised(_stairs(random, phase))
        + np.sqrt(_DIPS) * _standardised(_dips(random, phase))
        + np.sqrt(_NOISE) * _standardised(_noise(random, length))
    )
    return np.round(_within_range(total), 2)


def _remembering(innovations: NDArray[np.float64], memory: float) -> NDArray[np.float64]:
    """An autoregressive process of unit variance whose correlation falls as exp(-lag / memory)."""
    kept = np.exp(-1 / memory)
    fresh = np.sqrt(1 - kept**2)
    out = np.empty_like(innovations)
    value = innovations[0]
    for i, innovation in enumerate(innovations):
        value = kept * value + fresh * innovation
        out[i] = value
    return out


def _stairs(random: np.random.Generator, phase: NDArray[np.int64]) -> NDArray[np.float64]:
    """One level per allocation."""
    slot = np.cumsum(phase == 0)
    levels: NDArray[np.float64] = random.standard_normal(slot[-1] + 1)
    return np.take(levels, slot)


def _dips(random: np.random.Generator, phase: NDArray[np.int64]) -> NDArray[np.float64]:
    """A short loss at most handovers, of varying depth."""
    depth = random.uniform(0.5, 1.5, phase.size)
    lost = random.random(phase.size) < _DIPPED
    return np.where((phase == 0) & lost, -depth, 0.0)


def _noise(random: np.random.Generator, length: int) -> NDArray[np.float64]:
    size = np.exp(_ROUGHNESS * _remembering(random.standard_normal(length), _SPELL))
    return np.asarray(size * _remembering(random.standard_normal(length), _NOISE_MEMORY))


def _standardised(x: NDArray[np.float64]) -> NDArray[np.float64]:
    standardised: NDArray[np.float64] = (x - x.mean()) / x.std()
    return standardised


def _within_range(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Squash into the range with the mean and deviation wanted, by fixed-point iteration.

    The squashing function reaches a little beyond the range and is cut off there, so that a trace
    meets its limits as a saturated link does.
    """
    low, high = MINIMUM - _MARGIN, MAXIMUM + _MARGIN
    offset, gain = 0.0, 1.0
    for _ in range(50):
        squashed = low + (high - low) / (1 + np.exp(-offset - gain * x))
        squashed = np.clip(squashed, MINIMUM, MAXIMUM)
        gain *= STD / squashed.std()
        offset += (MEAN - squashed.mean()) * gain / STD
    return squashed
