"""What the simulator checks and how it schedules, and the context that changes it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, cast, get_args

from portable.errors import LaunchError

Schedule = Literal["random", "oldest", "newest", "round_robin", "held"]
SCHEDULES: Final[tuple[Schedule, ...]] = get_args(Schedule)

_SEED: Final = "PORTABLE_SIM_SEED"
_SCHEDULE: Final = "PORTABLE_SIM_SCHEDULE"
_COMPLETION: Final = "PORTABLE_SIM_COMPLETION"
_TURNS: Final = "PORTABLE_SIM_TURNS"

Completion = Literal["late", "early", "random"]
Turns = Literal["random", "first", "last"]


def _seed() -> int:
    text = os.environ.get(_SEED, "0")
    if not text.strip().isdecimal():
        raise LaunchError(f"{_SEED} is {text!r}; it must be a number from 0")
    return int(text)


def _word(variable: str, words: tuple[str, ...]) -> Any:
    text = os.environ.get(variable, words[0])
    if text not in words:
        raise LaunchError(f"{variable} is {text!r}; it must be one of {', '.join(words)}")
    return text


def _schedule() -> Schedule:
    return cast(Schedule, _word(_SCHEDULE, SCHEDULES))


def _completion() -> Completion:
    return cast(Completion, _word(_COMPLETION, get_args(Completion)))


def _turns() -> Turns:
    return cast(Turns, _word(_TURNS, get_args(Turns)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a kernel is simulated.

    Attributes
    ----------
    bounds : bool
        Report an index out of bounds. Switched off, such reads give 0 and such writes do nothing.
    uninitialised : bool
        Report a read of memory never written.
    races : bool
        Report unordered accesses by different work-items, one of them a plain write or beside an
        atomic one.
    divergence : bool
        Report a barrier or another collective operation that not all of its work-items reach.
    uniform : bool
        Report a value that was said to be uniform and is not.
    promises : bool
        Report operands that the IR promises not to be negative, or to be zeros, and are not.
    copies : bool
        Report accesses to memory that an asynchronous copy still reads or writes.
    waits : bool
        Report a wait that no running workgroup can end. Switched off, the launch ends
        there.
    seed : int
        Of the order in which workgroups run; ``PORTABLE_SIM_SEED`` gives the default.
    schedule : {"random", "oldest", "newest", "round_robin", "held"}
        Which of the workgroups that can go on is next: any; the one that started first, or last;
        the one that has waited longest; any but one, which is held back as long as another can go
        on (the one that starts as number `seed` modulo their number, once it has made its first
        atomic operation). ``PORTABLE_SIM_SCHEDULE`` gives the default.
    completion : {"late", "early", "random"}
        When asynchronous copies and multiplications are done: as late as a wait for them allows,
        at once, or at any time between; ``PORTABLE_SIM_COMPLETION`` gives the default.
    turns : {"random", "first", "last"}
        Which part of a workgroup goes on where several that wait for each other can: any, that of
        the lowest work-items, or that of the highest; ``PORTABLE_SIM_TURNS`` gives the default.
    resident : int
        How many workgroups run at once; another starts only when one of them has ended.
    patience : int
        Turns that may pass without a change to memory while loops still change their own
        variables, before that counts as an endless wait.
    """

    bounds: bool = True
    uninitialised: bool = True
    races: bool = True
    divergence: bool = True
    uniform: bool = True
    promises: bool = True
    copies: bool = True
    waits: bool = True
    seed: int = field(default_factory=_seed)
    schedule: Schedule = field(default_factory=_schedule)
    completion: Completion = field(default_factory=_completion)
    turns: Turns = field(default_factory=_turns)
    resident: int = 4
    patience: int = 100_000


_CURRENT: ContextVar[Settings | None] = ContextVar("portable_sim_settings", default=None)


def current() -> Settings:
    """The settings in force in this context."""
    return _CURRENT.get() or Settings()


@contextmanager
def checks(**changes: bool | int | str) -> Iterator[Settings]:
    """Change some settings for the launches made inside a ``with`` block.

    Parameters
    ----------
    **changes : bool, int or str
        Attributes of `Settings`, such as ``races=False`` or ``seed=7``.
    """
    settings = replace(current(), **changes)  # type: ignore[arg-type]
    token = _CURRENT.set(settings)
    try:
        yield settings
    finally:
        _CURRENT.reset(token)
