"""Room for deep calls.

CPython keeps the frames of calls in pieces of 16 KiB, and returns a piece to the system as soon as
the frames in it have ended. Where calls go up and down at the edge of a piece, each asks for memory
and returns it: an eighth of the time of what walks through trees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

_WORDS: Final = 66_000
"""Of a frame, so many that its piece is one of 1 MiB, of which half is left for others."""


def with_room(function: Callable[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """What a function returns, whose further calls have their frames in one piece of memory."""
    return function(*args, **kwargs)


with_room.__code__ = with_room.__code__.replace(co_stacksize=_WORDS)
