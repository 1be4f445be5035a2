"""Robust figures from few samples."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

__all__ = ["median", "paired_ratio", "spread"]


def spread(samples: Sequence[float]) -> float:
    """Median distance from the median, as a fraction of the median; outliers count little."""
    middle = median(samples)
    return median(abs(x - middle) for x in samples) / middle if middle else 0.0


def paired_ratio(over: Sequence[float], under: Sequence[float]) -> float | None:
    """Median of the ratios of samples taken side by side; None where no pair has both times.

    Both members of a pair meet the same clock frequency and the same neighbours, so a machine that
    slows down during a run does not bend the ratio.
    """
    ratios = [x / y for x, y in zip(over, under, strict=False) if x > 0 and y > 0]
    return median(ratios) if ratios else None
