"""Learning rates over time: what the optimizer's rate is multiplied by at each step.

A schedule is any function of the step (from 0) and of the number of steps in all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import cos, pi

Schedule = Callable[[int, int], float]


@dataclass(frozen=True, slots=True)
class Cosine:
    """Half a cosine from 1 down to `final` (Loshchilov and Hutter, "SGDR", ICLR 2017)."""

    final: float = 0.0

    def __call__(self, step: int, steps: int) -> float:
        """The factor at a step."""
        return self.final + (1 - self.final) * (1 + cos(pi * step / steps)) / 2


@dataclass(frozen=True, slots=True)
class Exponential:
    """A steady fall from 1 to `final`."""

    final: float = 0.01

    def __call__(self, step: int, steps: int) -> float:
        """The factor at a step."""
        return float(self.final ** (step / steps))


@dataclass(frozen=True, slots=True)
class Steps:
    """Times `factor` at each of the fractions `at` of the training."""

    at: tuple[float, ...] = (0.5, 0.75)
    factor: float = 0.1

    def __call__(self, step: int, steps: int) -> float:
        """The factor at a step."""
        return float(self.factor ** sum(step >= fraction * steps for fraction in self.at))


@dataclass(frozen=True, slots=True)
class Warmup:
    """Rises in a straight line over the first steps, then follows another schedule."""

    steps: int
    then: Schedule | None = None

    def __call__(self, step: int, steps: int) -> float:
        """The factor at a step."""
        rise = min(1.0, (step + 1) / self.steps) if self.steps else 1.0
        return rise * (self.then(step, steps) if self.then else 1.0)
