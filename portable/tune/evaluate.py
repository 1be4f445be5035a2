"""Verifies and times one choice on a device."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from portable.backend import Device
from portable.tune.search import Trial
from portable.tune.space import Parameters
from portable.tune.stopwatch import Stopwatch
from portable.tune.tunable import Problem

__all__ = ["Evaluator"]

_SAMPLES: Final = 5
_SHORTEST: Final = 0.005
_MOST_REPEATS: Final = 100
_HOPELESS: Final = 1.5


class Evaluator:
    """Tries choices on one problem; each is verified before it is timed.

    Parameters
    ----------
    problem : Problem
        What to run.
    device : Device
        Where.
    clock : callable
        The host's clock.
    """

    def __init__(
        self, problem: Problem, device: Device, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._problem = problem
        self._stopwatch = Stopwatch(device, clock)

    def __call__(self, choice: Parameters, best: float) -> Trial:
        """The choice's time, or why it failed; nothing that goes wrong stops the search."""
        try:
            self._problem.run(choice)
            error = self._problem.error()
            if not error <= 1:
                return Trial(choice, failure=f"wrong by {error:.3g} times the error allowed")
            return Trial(choice, self._seconds(choice, best))
        except Exception as error:  # noqa: BLE001  (drivers raise whatever they like)
            return Trial(choice, failure=str(error).partition("\n")[0] or type(error).__name__)

    def _seconds(self, choice: Parameters, best: float) -> float:
        """The least of several samples; one is enough for a choice far behind the best."""

        def work() -> None:
            self._problem.run(choice)

        once = self._stopwatch.run(work).seconds
        if once > _HOPELESS * best:
            return once
        repeats = min(max(int(_SHORTEST / max(once, 1e-9)), 1), _MOST_REPEATS)
        return min(self._stopwatch.run(work, repeats).seconds for _ in range(_SAMPLES))
