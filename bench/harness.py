"""Verifies, warms up and times the contenders of a case side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

import numpy as np

from portable.registry import use
from portable.tune.stopwatch import Stopwatch, Timing
from portable_bench.operation import Case, Contender, Operation, Task
from portable_bench.results import Cell, Outcome

__all__ = ["Effort", "Harness"]

_LONGEST_REASON: Final = 400


@dataclass(frozen=True, slots=True)
class Effort:
    """How much time to spend.

    Attributes
    ----------
    sample : float
        Seconds that one sample should last at least; short runs are repeated.
    cell : float
        Seconds after which no new round is begun.
    least_rounds, most_rounds : int
        Samples of each contender.
    most_repeats : int
        Runs in a row of one sample.
    rest : float
        Seconds between contenders. The threads of OpenBLAS, oneMKL and OpenMP spin for tens of
        milliseconds after a call, waiting for the next one (2**26 clock ticks in OpenBLAS), and
        would take a core from whoever is timed then.
    """

    sample: float = 0.01
    cell: float = 1.0
    least_rounds: int = 3
    most_rounds: int = 15
    most_repeats: int = 200
    rest: float = 0.04


@dataclass(slots=True)
class _Runner:
    """A contender that passed verification, ready to be timed."""

    work: Callable[[], Any]
    take: Callable[[Callable[[], Any], int], Timing]
    outcome: Outcome

    def sample(self) -> None:
        """One sample, after a run that wakes threads and fills caches."""
        self.take(self.work, 1)
        self.outcome.samples.append(self.take(self.work, self.outcome.repeats))


class Harness:
    """Measures cases with a given effort.

    Parameters
    ----------
    effort : Effort
        How much time to spend.
    clock, sleep : callable
        The host's.
    """

    def __init__(
        self,
        effort: Effort,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._effort = effort
        self._clock = clock
        self._sleep = sleep

    def measure(self, operation: Operation, case: Case, *, ladder: bool = False) -> Cell:
        """The cell of a case; whatever fails is noted in it."""
        cell = Cell(
            operation.name,
            case.device.name,
            case.dtype.short,
            case.size,
            operation.label(case.size),
            operation.work(case.size, case.dtype),
        )
        # NumPy arrays run on the device in use.
        with use(case.device):
            self._measure(operation, case, cell, ladder)
        return cell

    def _measure(self, operation: Operation, case: Case, cell: Cell, ladder: bool) -> None:
        try:
            contenders = operation.ladder(case) if ladder else operation.contenders(case)
        except Exception as error:  # noqa: BLE001  (a cell that fails must not stop the others)
            cell.failure = _reason(error)
            return
        self._alternate(list(self._verified(operation, case, contenders, cell)))

    def _verified(
        self, operation: Operation, case: Case, contenders: Sequence[Contender], cell: Cell
    ) -> Iterator[_Runner]:
        for contender in contenders:
            outcome = Outcome(contender.name, contender.peer)
            cell.outcomes.append(outcome)
            stopwatch = Stopwatch(contender.device, self._clock)
            take = stopwatch.run if operation.timed == "run" else stopwatch.enqueue
            try:
                task = contender.make()
                outcome.error = operation.error(case, _result(contender, task))
                # An inexact peer is still a peer; the report marks it.
                if not outcome.verified and not contender.peer:
                    outcome.failure = f"wrong: {outcome.error:.3g} times the error allowed"
                    continue
                outcome.repeats = self._repeats(take(task.run, 1), take(task.run, 1))
            except Exception as error:  # noqa: BLE001  (as above)
                outcome.failure = _reason(error)
                continue
            yield _Runner(task.run, take, outcome)

    def _repeats(self, *warm: Timing) -> int:
        fastest = max(min(t.wall for t in warm), 1e-9)
        return min(max(ceil(self._effort.sample / fastest), 1), self._effort.most_repeats)

    def _alternate(self, runners: list[_Runner]) -> None:
        """Samples in turn, each round in the other order than the last."""
        effort = self._effort
        begun = self._clock()
        for done in range(effort.most_rounds):
            if done >= effort.least_rounds and self._clock() - begun > effort.cell:
                break
            for runner in list(runners)[:: 1 if done % 2 else -1]:
                if len(runners) > 1:
                    self._sleep(effort.rest)
                try:
                    runner.sample()
                except Exception as error:  # noqa: BLE001  (as above)
                    runner.outcome.failure = _reason(error)
                    runners.remove(runner)


def _result(contender: Contender, task: Task) -> np.ndarray[Any, Any]:
    """The result of a first run, on the host."""
    returned = task.run()
    found = returned if task.result is None else task.result
    return np.asarray(contender.device.to_numpy(found) if contender.device else found)


def _reason(error: Exception) -> str:
    """What went wrong in a line or two."""
    text = " ".join(str(error).partition("\n---")[0].split()) or type(error).__name__
    return text if len(text) <= _LONGEST_REASON else text[:_LONGEST_REASON] + " ..."
