"""Searches a space of choices for the fastest one within a time budget."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan
from typing import Any, Final

import numpy as np

from portable.dtypes import DType
from portable.tune.space import Parameters

# Compares results with references.


_DIGITS: Final = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


def unit_roundoff(dtype: DType) -> float:
    """Half the distance from 1 to the next number."""
    return 2.0 ** -_DIGITS[dtype.name]


def worst_error(result: np.ndarray[Any, Any], exact: Any, allowed: Any) -> float:
    """The largest error in units of what is allowed; infinite for NaN where a number should be.

    Parameters
    ----------
    result : ndarray
        A result.
    exact : array_like
        What it should be.
    allowed : array_like
        By how much it may differ.
    """
    same = result == exact
    if np.all(same):  # as copies are, of which there are gigabytes
        return 0.0
    with np.errstate(all="ignore"):
        ratios = np.abs(result - exact) / allowed
    same |= np.isnan(result) & np.isnan(exact)
    worst = float(np.max(np.where(same, 0, ratios), initial=0))
    return inf if isnan(worst) else worst


_EXPLORED: Final = 0.4
"""Fraction of the budget that goes to choices drawn at random before the best are refined."""

_REFINED: Final = 3


@dataclass(frozen=True, slots=True)
class Trial:
    """One choice and how it did.

    Attributes
    ----------
    choice : mapping
        The parameters.
    seconds : float
        Of one run; infinite if it failed.
    failure : str
        Why: it did not build, did not launch, or its result was wrong.
    """

    choice: Parameters
    seconds: float = inf
    failure: str = ""


class Search:
    """Random choices first, then the neighbours of the best ones, until the time is up.

    Parameters
    ----------
    choices : sequence of mapping
        All that make sense.
    values : mapping
        Per parameter its values in order, which defines neighbours.
    evaluate : callable
        Verifies and times one choice; given the best time so far.
    budget : float
        Seconds.
    first : iterable of mapping
        Choices to begin with, such as those in use now.
    clock : callable
        The host's clock.
    seed : int
        Of the random order.
    """

    def __init__(
        self,
        choices: Sequence[Parameters],
        values: Mapping[str, Sequence[Any]],
        evaluate: Callable[[Parameters, float], Trial],
        *,
        budget: float,
        first: Iterable[Parameters] = (),
        clock: Callable[[], float] = time.monotonic,
        seed: int = 0,
    ) -> None:
        self._values = values
        self._evaluate = evaluate
        self._budget = budget
        self._clock = clock
        self._known = {_key(c): c for c in choices}
        self._first = [c for c in first if set(c) == set(values)]
        self._order = random.Random(seed).sample(list(choices), len(choices))  # noqa: S311
        self.trials: dict[Any, Trial] = {}

    @property
    def best(self) -> Trial | None:
        """The fastest that worked so far."""
        working = [t for t in self.trials.values() if not t.failure]
        return min(working, key=lambda t: t.seconds, default=None)

    def run(self) -> Iterator[Trial]:
        """Tries choices one by one, until the time is up or none is left."""
        begun = self._clock()
        for part, source in ((_EXPLORED, self._explore), (1.0, self._refine), (1.0, self._explore)):
            for choice in source():
                if self._clock() - begun >= part * self._budget:
                    break
                yield self._try(choice)

    def _try(self, choice: Parameters) -> Trial:
        best = self.best
        trial = self._evaluate(choice, best.seconds if best else inf)
        self.trials[_key(choice)] = trial
        return trial

    def _explore(self) -> Iterator[Parameters]:
        for choice in [*self._first, *self._order]:
            if _key(choice) not in self.trials:
                yield choice

    def _refine(self) -> Iterator[Parameters]:
        """Untried neighbours of the best, beginning anew whenever there is a new best."""
        while True:
            working = [t for t in self.trials.values() if not t.failure]
            ranked = sorted(working, key=lambda t: t.seconds)[:_REFINED]
            near = (n for t in ranked for n in neighbours(t.choice, self._values))
            untried = (n for n in near if _key(n) in self._known and _key(n) not in self.trials)
            choice = next(untried, None)
            if choice is None:
                return
            yield choice


def neighbours(choice: Parameters, values: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """The choices that differ by one step of one parameter."""
    for name, steps in values.items():
        if choice[name] not in steps:
            continue
        position = steps.index(choice[name])
        for other in (position - 1, position + 1):
            if 0 <= other < len(steps):
                yield {**choice, name: steps[other]}


def _key(choice: Parameters) -> Any:
    return tuple(sorted(choice.items()))
