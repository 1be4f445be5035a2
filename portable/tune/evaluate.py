"""Verifies and times one choice on a device.

`Isolated` does so in a process of its own, so that a choice which kills or blocks it ends no
search.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any, Final

from portable import registry
from portable.backend import Device
from portable.dtypes import DType, dtype
from portable.errors import DeviceFaultError
from portable.system import isolation
from portable.tune.search import Trial
from portable.tune.space import Parameters
from portable.tune.stopwatch import Stopwatch
from portable.tune.tunable import Problem, Size

TUNABLES: Final = "portable.tunables"
"""The group of entry points by which kernels that can be tuned are found."""

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
        """The choice's time, or why it failed.

        Raises
        ------
        DeviceFaultError
            After which the device may do no more work for this process.
        """
        try:
            self._problem.run(choice)
            error = self._problem.error()
            if not error <= 1:
                return Trial(choice, failure=f"wrong by {error:.3g} times the error allowed")
            return Trial(choice, self._seconds(choice, best))
        except DeviceFaultError:
            raise
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


def evaluator_for(
    problem: Callable[[Device, DType, Size], Problem], device: str, kind: str, size: Size
) -> Evaluator:
    """The evaluator for a problem by names, on what becomes the device in use of this process.

    Parameters
    ----------
    problem : callable
        `Tunable.problem`.
    device, kind : str
        The names of the device and of the dtype.
    size : tuple of int
        The problem's.
    """
    chosen = registry.use(device).device  # NumPy arrays run on the device in use
    return Evaluator(problem(chosen, dtype(kind), size), chosen)


def evaluator_of(kernel: str, device: str, kind: str, size: Size) -> Evaluator:
    """The same of a kernel by its name in the group of entry points.

    For processes of their own: what a `Tunable` is made of need not be pickled.

    Parameters
    ----------
    kernel : str
        The entry point's name.
    device, kind, size
        As of `evaluator_for`.
    """
    entry = next(iter(entry_points(group=TUNABLES, name=kernel)))
    return evaluator_for(entry.load().problem, device, kind, size)


Evaluate = Callable[[Parameters, float], Trial]
"""Verifies and times one choice, given the best time so far."""


class Isolated(isolation.Isolated[Trial]):
    """An evaluator in a process of its own; a new one takes the place of one that is lost.

    A context manager, which starts the process and ends it.

    Parameters
    ----------
    make : callable
        Makes the evaluator over there; it is pickled.
    patience : float
        Seconds after which a choice is given up.
    """

    def __init__(self, make: Callable[[], Evaluate], *, patience: float = 60.0) -> None:
        super().__init__(make, patience=patience, what="what is to be tuned")

    def __call__(self, *asked: Any) -> Trial:
        """The time of a choice, given with the best one so far, or why there is none."""
        choice, best = asked
        try:
            return super().__call__(dict(choice), best)
        except isolation.LostError as error:
            return Trial(choice, failure=str(error))
