"""What the simulator checks and how it schedules, and the context that changes it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Final

from portable.errors import LaunchError

__all__ = ["Settings", "checks", "current"]


_SEED: Final = "PORTABLE_SIM_SEED"


def _seed() -> int:
    text = os.environ.get(_SEED, "0")
    if not text.strip().isdecimal():
        raise LaunchError(f"{_SEED} is {text!r}; it must be a number from 0")
    return int(text)


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
    resident: int = 4
    patience: int = 100_000


_CURRENT: ContextVar[Settings | None] = ContextVar("portable_sim_settings", default=None)


def current() -> Settings:
    """The settings in force in this context."""
    return _CURRENT.get() or Settings()


@contextmanager
def checks(**changes: bool | int) -> Iterator[Settings]:
    """Change some settings for the launches made inside a ``with`` block.

    Parameters
    ----------
    **changes : bool or int
        Attributes of `Settings`, such as ``races=False`` or ``seed=7``.
    """
    settings = replace(current(), **changes)  # type: ignore[arg-type]
    token = _CURRENT.set(settings)
    try:
        yield settings
    finally:
        _CURRENT.reset(token)
