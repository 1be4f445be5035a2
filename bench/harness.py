"""Verifies, warms up and times the contenders of a case side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Any, Final

import numpy as np

from portable.errors import DeviceFaultError, OutOfMemoryError
from portable.registry import use
from portable.tune.stopwatch import Stopwatch, Timing
from portable_bench.operation import Array, Case, Contender, Operation, Verifier
from portable_bench.results import DISAGREE, Cell, Outcome

_LONGEST_REASON: Final = 400
_AGAIN: Final = 2
"""How many times the usual rounds, and the usual patience, samples get that disagree."""
_SLOW: Final = 1.5
"""A single sample beyond so many times the run before it met something that the run did not."""
_LOOK: Final = 0.005
_IDLE: Final = 0.2
"""Of a core: the most that threads which sleep work."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How much time to spend.

    Attributes
    ----------
    sample : float
        Seconds that one sample should last at least; short runs are repeated.
    cell : float
        Seconds after which no new round is begun.
    least_rounds, most_rounds : int
        Samples of each contender.
    patience : float
        Seconds after which fewer rounds than the least will do.
    most_repeats : int
        Runs in a row of one sample.
    short : float
        Seconds below which a run is preceded by one that is not counted.
    rest : float
        Seconds at most before another contender is timed. Threads of OpenBLAS, oneMKL and OpenMP
        spin for tens to hundreds of milliseconds after a call, those of Intel's runtime for one,
        and would take a core from who is next: products on two cores took twice as long so.
    """

    sample: float = 0.01
    cell: float = 1.0
    least_rounds: int = 3
    most_rounds: int = 15
    patience: float = inf
    most_repeats: int = 200
    short: float = 0.25
    rest: float = 0.5


@dataclass(frozen=True, slots=True)
class _Problem:
    """The inputs of a case on the host, and what its results are compared with."""

    key: tuple[Any, ...]
    inputs: tuple[Array, ...]
    error: Verifier


@dataclass(slots=True)
class _Runner:
    """A contender that passed verification, ready to be timed."""

    work: Callable[[], Any]
    take: Callable[[Callable[[], Any], int], Timing]
    outcome: Outcome
    short: bool
    inputs: tuple[Any, ...]
    """Prepared launches do not keep their arrays alive."""
    warm: float
    """Seconds of the faster run before any was counted."""

    @property
    def agrees(self) -> bool:
        """Whether its samples do; a single one with the run before it."""
        samples = [s.seconds for s in self.outcome.samples]
        if len(samples) > 1:
            return self.outcome.spread <= DISAGREE
        return not samples or self.outcome.samples[0].wall <= _SLOW * self.warm

    def sample(self) -> None:
        """One sample; short ones after a run that wakes threads and fills caches."""
        if self.short:
            self.take(self.work, 1)
        self.outcome.samples.append(self.take(self.work, self.outcome.repeats))


class Harness:
    """Measures cases with a given pace.

    Parameters
    ----------
    pace : Pace
        How much time to spend.
    clock, sleep : callable
        The host's.
    worked : callable
        Seconds that the threads of this process have worked so far.

    Attributes
    ----------
    spoiled : bool
        Whether a device failed in a way after which this process can measure no more on it.
    """

    def __init__(
        self,
        pace: Pace,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
        worked: Callable[[], float] = time.process_time,
    ) -> None:
        self.pace = pace
        self.spoiled = False
        self._clock = clock
        self._sleep = sleep
        self._worked = worked
        self._last: _Problem | None = None

    def measure(self, operation: Operation, case: Case, *, ladder: bool = False) -> Cell:
        """The cell of a case; whatever fails is noted in it."""
        cell = failed(operation, case, "")
        # NumPy arrays run on the device in use.
        with use(case.device):
            try:
                problem = self._problem(operation, case, cell)
                contenders = operation.contenders(case, ladder=ladder)
            except Exception as error:  # noqa: BLE001  (a cell that fails must not stop the others)
                cell.failure = self._reason(error)
                return cell
            self._alternate(list(self._verified(operation, problem, contenders, cell)))
        return cell

    def _problem(self, operation: Operation, case: Case, cell: Cell) -> _Problem:
        """Kept until another is asked for: devices take turns at the same one."""
        room = case.device.capabilities.global_memory
        if cell.work and 0 < room < cell.work.bytes:
            needed = cell.work.bytes / 2**30
            raise OutOfMemoryError(f"needs {needed:.3g} GiB, the device has {room / 2**30:.3g}")
        key = (operation, case.dtype, case.size)
        if self._last is None or self._last.key != key:
            self._last = None
            inputs = operation.inputs(case)
            self._last = _Problem(key, inputs, operation.verifier(case, *inputs))
        return self._last

    def _verified(
        self,
        operation: Operation,
        problem: _Problem,
        contenders: Sequence[Contender],
        cell: Cell,
    ) -> Iterator[_Runner]:
        for contender in contenders:
            outcome = Outcome(contender.name, contender.peer)
            cell.outcomes.append(outcome)
            stopwatch = Stopwatch(contender.device, self._clock)
            take = stopwatch.run if operation.timed == "run" else stopwatch.enqueue
            try:
                inputs = on_device(contender, problem.inputs)
                run = contender.prepare(*inputs)
                returned = run()
                result = inputs[-1] if operation.in_place else returned
                outcome.error = problem.error(_on_host(contender, result))
                # An inexact peer is still a peer; the report marks it.
                if not outcome.verified and not contender.peer:
                    outcome.failure = f"wrong: {outcome.error:.3g} times the error allowed"
                    continue
                warm = [take(run, 1).wall]
                short = warm[0] < self.pace.short
                if short:
                    warm.append(take(run, 1).wall)
                outcome.repeats = self._repeats(min(warm))
            except Exception as error:  # noqa: BLE001  (as above)
                outcome.failure = self._reason(error)
                continue
            yield _Runner(run, take, outcome, short, inputs, min(warm))

    def _repeats(self, seconds: float) -> int:
        wanted = ceil(self.pace.sample / max(seconds, 1e-9))
        return min(max(wanted, 1), self.pace.most_repeats)

    def _alternate(self, runners: list[_Runner]) -> None:
        """Samples in turn, each round in the other order than the last."""
        pace = self.pace
        begun = self._clock()
        last: _Runner | None = None
        for done in range(pace.most_rounds):
            if self._are_enough(done, self._clock() - begun, runners):
                break
            for runner in list(runners)[:: 1 if done % 2 else -1]:
                if runner is not last:
                    self._rest()
                last = runner
                try:
                    runner.sample()
                except Exception as error:  # noqa: BLE001  (as above)
                    runner.outcome.failure = self._reason(error)
                    runners.remove(runner)

    def _are_enough(self, done: int, spent: float, runners: Sequence[_Runner]) -> bool:
        """Whether so many rounds will do; more are taken of samples that disagree."""
        pace = self.pace
        if spent <= pace.cell or not done:
            return False
        if all(runner.agrees for runner in runners):
            return done >= pace.least_rounds or spent > pace.patience
        return done >= _AGAIN * pace.least_rounds or (done > 1 and spent > _AGAIN * pace.patience)

    def _rest(self) -> None:
        """Waits for the threads that whoever ran last left spinning to sleep."""
        latest = self._clock() + self.pace.rest
        while self._clock() < latest:
            begun, before = self._clock(), self._worked()
            self._sleep(_LOOK)
            if self._worked() - before < _IDLE * (self._clock() - begun):
                break

    def _reason(self, error: Exception) -> str:
        """What went wrong in a line or two."""
        self.spoiled |= isinstance(error, DeviceFaultError)
        text = " ".join(str(error).partition("\n---")[0].split()) or type(error).__name__
        return text if len(text) <= _LONGEST_REASON else text[:_LONGEST_REASON] + " ..."


def failed(operation: Operation, case: Case, reason: str) -> Cell:
    """The cell of a case that was not measured.

    Parameters
    ----------
    operation : Operation
    case : Case
    reason : str
        Why, for the reader.
    """
    return Cell(
        operation.name,
        case.device.name,
        case.dtype.short,
        case.size,
        operation.label(case.size),
        operation.work(case),
        operation.model(case.size),
        failure=reason,
    )


def on_device(contender: Contender, inputs: tuple[Array, ...]) -> tuple[Any, ...]:
    """Copies, so that nobody changes what others are given."""
    device = contender.device
    return tuple(x.copy() if device is None else device.from_numpy(x) for x in inputs)


def _on_host(contender: Contender, result: Any) -> Any:
    if isinstance(result, tuple | list):
        return tuple(_on_host(contender, x) for x in result)
    return np.asarray(contender.device.to_numpy(result) if contender.device else result)
