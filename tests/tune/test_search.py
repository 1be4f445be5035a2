"""The search on made-up landscapes, and candidates that fail in every way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from typing import Any

import pytest

from portable.errors import CompileError, LaunchError
from portable.tune.cli import Evaluator
from portable.tune.search import Search, Trial, neighbours
from portable.tune.space import Parameters
from tests.bench.fakes import FakeClock, FakeDevice

VALUES = {"X": tuple(range(20)), "Y": tuple(range(20))}
CHOICES = [{"X": x, "Y": y} for x in VALUES["X"] for y in VALUES["Y"]]


def valley(choice: Parameters) -> float:
    """Fastest at (13, 4)."""
    return 1.0 + (choice["X"] - 13) ** 2 + (choice["Y"] - 4) ** 2


def searched(
    clock: FakeClock,
    evaluate: Callable[[Parameters, float], Trial],
    budget: float,
    choices: list[dict[str, int]] = CHOICES,
    first: Iterator[Parameters] | list[Parameters] | tuple[()] = (),
) -> Search:
    def costly(choice: Parameters, best: float) -> Trial:
        clock.advance(1.0)
        return evaluate(choice, best)

    search = Search(choices, VALUES, costly, budget=budget, first=first, clock=clock)
    for _ in search.run():
        pass
    return search


def test_the_best_is_found_without_trying_all() -> None:
    search = searched(FakeClock(), lambda c, best: Trial(c, valley(c)), budget=100)
    assert search.best is not None
    assert search.best.choice == {"X": 13, "Y": 4}
    assert len(search.trials) <= 100


def test_the_budget_is_kept() -> None:
    clock = FakeClock()
    searched(clock, lambda c, best: Trial(c, valley(c)), budget=30)
    assert clock.now <= 31


def test_small_spaces_are_exhausted() -> None:
    search = searched(FakeClock(), lambda c, best: Trial(c, valley(c)), 1000, CHOICES[:7])
    assert len(search.trials) == 7


def test_nothing_is_tried_twice() -> None:
    tried: list[Any] = []

    def once(choice: Parameters, best: float) -> Trial:
        tried.append(tuple(choice.items()))
        return Trial(choice, valley(choice))

    searched(FakeClock(), once, 300)
    assert len(tried) == len(set(tried))


def test_what_is_in_use_comes_first() -> None:
    seen: list[Parameters] = []

    def note(choice: Parameters, best: float) -> Trial:
        seen.append(choice)
        return Trial(choice, 1.0)

    searched(FakeClock(), note, 5, first=[{"X": 99, "Y": 3}, {"Z": 1}])
    assert seen[0] == {"X": 99, "Y": 3}
    assert {"Z": 1} not in seen


def test_failures_are_never_the_best() -> None:
    def mostly_broken(choice: Parameters, best: float) -> Trial:
        if choice["X"] % 3:
            return Trial(choice, failure="does not build")
        return Trial(choice, valley(choice))

    search = searched(FakeClock(), mostly_broken, 200)
    assert search.best is not None
    assert search.best.choice["X"] == 12


def test_nothing_works() -> None:
    search = searched(FakeClock(), lambda c, best: Trial(c, failure="no"), 20)
    assert search.best is None


def test_neighbours() -> None:
    near = list(neighbours({"A": 1, "B": True, "C": 7}, {"A": (0, 1, 2), "B": (False, True)}))
    assert near == [
        {"A": 0, "B": True, "C": 7},
        {"A": 2, "B": True, "C": 7},
        {"A": 1, "B": False, "C": 7},
    ]


# -- one candidate ------------------------------------------------------------------------------


class FakeProblem:
    """A kernel whose choice says how long it takes and what goes wrong."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.runs = 0
        self._error = inf

    def run(self, choice: Parameters) -> None:
        self.runs += 1
        if isinstance(choice.get("raises"), Exception):
            raise choice["raises"]
        self._error = choice.get("error", 0.1)
        self.clock.advance(choice.get("seconds", 0.01))

    def error(self) -> float:
        found, self._error = self._error, inf
        return found


def tried(choice: Parameters, best: float = inf) -> tuple[Trial, FakeProblem]:
    clock = FakeClock()
    problem = FakeProblem(clock)
    return Evaluator(problem, FakeDevice(), clock)(choice, best), problem


def test_a_candidate_that_works_is_timed() -> None:
    trial, _ = tried({"seconds": 0.03})
    assert trial.seconds == pytest.approx(0.03)
    assert not trial.failure


@pytest.mark.parametrize("error", [1.01, 1e9, inf, float("nan")])
def test_a_wrong_candidate_is_not_timed(error: float) -> None:
    trial, problem = tried({"error": error})
    assert trial.seconds == inf
    assert "wrong" in trial.failure
    assert problem.runs == 1


@pytest.mark.parametrize(
    "error",
    [
        CompileError("refused", "source", "log"),
        LaunchError("too large"),
        RuntimeError("driver"),
        MemoryError(),
    ],
    ids=lambda e: type(e).__name__,
)
def test_a_candidate_that_raises_is_skipped(error: Exception) -> None:
    trial, _ = tried({"raises": error})
    assert trial.failure
    assert "source" not in trial.failure


def test_a_hopeless_candidate_is_timed_once() -> None:
    slow, problem = tried({"seconds": 1.0}, best=0.1)
    assert slow.seconds == pytest.approx(1.0)
    assert problem.runs == 2
