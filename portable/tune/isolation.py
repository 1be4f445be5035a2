"""Tries choices in a process of its own, so that one which kills or blocks it ends no search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from portable.system import isolation
from portable.tune.search import Trial
from portable.tune.space import Parameters

Evaluate = Callable[[Parameters, float], Trial]
"""Verifies and times one choice, given the best time so far."""


class Isolated:
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
        self._evaluate = isolation.Isolated(make, patience=patience, what="what is to be tuned")

    def __enter__(self) -> Self:
        self._evaluate.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._evaluate.stop()

    def __call__(self, choice: Parameters, best: float) -> Trial:
        """The choice's time, or why there is none."""
        try:
            return self._evaluate(dict(choice), best)
        except isolation.LostError as error:
            return Trial(choice, failure=str(error))
