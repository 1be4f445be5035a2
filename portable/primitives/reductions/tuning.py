"""Into how many parts reductions are cut; what ``portable tune reduce`` searches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Final, NamedTuple

from portable.backend import Capabilities
from portable.dtypes import DType, float32
from portable.tune.space import Parameters, Space
from portable.tune.table import lookup, state

__all__ = ["SPACE", "Shares", "shares_for", "trying"]


class Shares(NamedTuple):
    """How a device's workgroups share a reduction.

    Attributes
    ----------
    group : int
        Work-items of a workgroup at most.
    groups : int
        Workgroups wanted for each compute unit where each leaves its total for a second launch.
    at_once : int
        The same where the last of them combines all totals.
    ahead : int
        Vectors that a work-item reads before it combines them.
    vectors : int
        Vectors of a section at least.
    """

    group: int
    groups: int
    at_once: int
    ahead: int
    vectors: int


def _fits(choice: Parameters, dtype: DType, capabilities: Capabilities) -> bool:
    del dtype
    return bool((choice["GROUP"] == 1) == capabilities.lone_work_items)


SPACE: Final = Space(
    "reduce",
    {
        "GROUP": (1, 64, 128, 256, 512),
        "GROUPS": (4, 8, 16, 32, 64),
        "AT_ONCE": (1, 2, 4, 8, 16),
        "AHEAD": (2, 4, 8, 16),
        "VECTORS": (1024, 4096, 16384),
    },
    _fits,
)

_tried: Final[ContextVar[Parameters | None]] = ContextVar("tried", default=None)


@contextmanager
def trying(choice: Parameters) -> Iterator[None]:
    """A context in which plans are made with a choice, whatever the table says."""
    token = _tried.set(choice)
    try:
        yield
    finally:
        _tried.reset(token)


def shares_for(capabilities: Capabilities) -> Shares:
    """What the table says of a device; it is searched with `float32` and holds for every dtype."""
    tried = _tried.get()
    if tried is not None:
        return _shares(tried, capabilities)
    return _tabled(capabilities, state())


@lru_cache(maxsize=256)
def _tabled(capabilities: Capabilities, table: Any) -> Shares:
    """As of one state of the user's table."""
    del table
    choices = lookup(SPACE, float32, capabilities)
    return _shares(next(c for c in choices if _fits(c, float32, capabilities)), capabilities)


def _shares(choice: Parameters, capabilities: Capabilities) -> Shares:
    group = min(choice["GROUP"], capabilities.max_workgroup)
    return Shares(group, choice["GROUPS"], choice["AT_ONCE"], choice["AHEAD"], choice["VECTORS"])
