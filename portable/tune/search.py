"""Searches a space of choices for the fastest one within a time budget."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import inf, isnan
from typing import Any, Final, Protocol

import numpy as np

from portable.backend import Capabilities, Device
from portable.dtypes import DType

# The parameters of a kernel that a search may choose.


Parameters = Mapping[str, Any]
"""A value for each parameter of a space."""


@dataclass(frozen=True)
class Space:
    """Everything that may be tuned of one kernel, declared in one place.

    Attributes
    ----------
    kernel : str
        The name in tables and on the command line.
    values : mapping of str to tuple
        Per parameter its possible values.
    fits : callable
        Whether a choice makes sense for a dtype on a device: enough local memory, whole tiles, ...
    left_out : mapping of str to object
        What parameters are that a table's entry does not mention. One that is not among `values`
        is no matter of the search: it takes any whole number from 0.
    """

    kernel: str
    values: Mapping[str, tuple[Any, ...]]
    fits: Callable[[Parameters, DType, Capabilities], bool]
    left_out: Mapping[str, Any] = field(default_factory=dict)

    def choices(self, dtype: DType, capabilities: Capabilities) -> Iterator[dict[str, Any]]:
        """Every choice that fits, in a fixed order."""
        names = tuple(self.values)
        for values in product(*self.values.values()):
            choice = dict(zip(names, values, strict=True))
            if self.fits(choice, dtype, capabilities):
                yield choice

    def checked(self, entry: object) -> Parameters:
        """A table's entry with all its parameters.

        Raises
        ------
        ValueError
            If it lacks one, or has one that the kernel does not know or a value that it does not
            take. Kernels count on values of the space: others may be wrong silently.
        """
        if not isinstance(entry, Mapping):
            raise ValueError(f"is no object but {entry!r:.40}")
        whole = {**self.left_out, **entry}
        missing = [name for name in self.values if name not in whole]
        if missing:
            raise ValueError(f"lacks {', '.join(missing)}")
        for name, value in whole.items():
            self._check(name, value)
        return whole

    def _check(self, name: str, value: object) -> None:
        if name in self.values:
            # 1, 1.0 and True are equal, and each means something else to a kernel.
            if any(type(value) is type(x) and value == x for x in self.values[name]):
                return
            raise ValueError(f"has {name} {value!r:.40}; there are {self._listed(name)}")
        if name not in self.left_out:
            raise ValueError(f"has {name!r:.40}, which {self.kernel} does not know")
        if type(value) is not int or value < 0:
            raise ValueError(f"has {name} {value!r:.40}; expected a whole number from 0")

    def _listed(self, name: str) -> str:
        return ", ".join(map(str, self.values[name]))


# What an operation supplies so that its kernel can be tuned.


Size = tuple[int, ...]


class Problem(Protocol):
    """One problem on one device, its arrays made and its reference known."""

    def run(self, choice: Parameters) -> None:
        """Enqueues the kernel with one choice."""

    def error(self) -> float:
        """The worst error of the last result over what is allowed; clears the result."""


def parse_extents(text: str, *, axes: str, example: str) -> Size:
    """``n`` for all of `axes`, such as ``"MxN"``, or one number for each.

    Parameters
    ----------
    text : str
        What was typed.
    axes : str
        Names of the extents with an ``x`` between.
    example : str
        What the complaint shows.

    Raises
    ------
    ValueError
        For anything else.
    """
    expected = f"expected n or {axes}, such as {example}"
    count = len(axes.split("x"))
    try:
        extents = tuple(int(part) for part in text.lower().split("x"))
    except ValueError:
        raise ValueError(expected) from None
    if len(extents) not in (1, count) or min(extents) < 1:
        raise ValueError(expected)
    return extents * count if len(extents) == 1 else extents


@dataclass(frozen=True, slots=True)
class Tunable:
    """A kernel with parameters to choose; found through the entry points ``portable.tunables``.

    Attributes
    ----------
    space : Space
        The choices.
    dtypes : tuple of DType
        Each is tuned by itself.
    sizes : callable
        The problems to tune for on such a device, the largest first.
    parse_size : callable
        A size from the command line; ValueError says what is expected.
    flops : callable
        What a problem of a size costs, in operations of floats.
    problem : callable
        Makes a problem.
    entry : callable
        What the table lists, of a size and the best choice for it: the choice, if left out.
    """

    space: Space
    dtypes: tuple[DType, ...]
    sizes: Callable[[Capabilities], Sequence[Size]]
    parse_size: Callable[[str], Size]
    flops: Callable[[Size], float]
    problem: Callable[[Device, DType, Size], Problem]
    entry: Callable[[Size, Parameters], Parameters] = lambda size, choice: choice


# How long a piece of work takes on a device, by the host's clock and by the device's own.


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds per run.

    Attributes
    ----------
    wall : float
        By the host's clock, from an idle device to an idle device.
    device : float or None
        By the device's own marks; None where it makes none.
    """

    wall: float
    device: float | None = None

    @property
    def seconds(self) -> float:
        """The device's own time where there is one."""
        return self.wall if self.device is None else self.device


class Stopwatch:
    """Times work on one device.

    Parameters
    ----------
    device : Device or None
        Where the work runs; None for work that is done when its call returns.
    clock : callable
        The host's clock, in seconds.
    """

    def __init__(
        self, device: Device | None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._device = device
        self._clock = clock

    def run(self, work: Callable[[], Any], repeats: int = 1) -> Timing:
        """`repeats` runs in a row, from an idle device until it is idle again."""
        timer = self._device.timer() if self._device else None
        self._wait()
        begun = self._clock()
        if timer:
            timer.start()
        for _ in range(repeats):
            work()
        if timer:
            timer.stop()
        self._wait()
        wall = self._clock() - begun
        return Timing(wall / repeats, timer.seconds() / repeats if timer else None)

    def enqueue(self, work: Callable[[], Any], repeats: int = 1) -> Timing:
        """The host's share alone: until the last of `repeats` calls returns."""
        self._wait()
        begun = self._clock()
        for _ in range(repeats):
            work()
        wall = self._clock() - begun
        self._wait()
        return Timing(wall / repeats)

    def _wait(self) -> None:
        if self._device is not None:
            self._device.synchronize()


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
    with np.errstate(all="ignore"):
        ratios = np.abs(result - exact) / allowed
    same = (result == exact) | (np.isnan(result) & np.isnan(exact))
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
