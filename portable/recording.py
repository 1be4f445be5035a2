"""Hooks for tapes: recorders that see each launch and each operation while they are active.

`active` counts them, so that a launch which nobody records pays for one comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, Final, ParamSpec, Protocol, TypeVar, cast

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

active: int = 0
"""How many recorders there are in all threads; 0 nearly always."""


class Recorder(Protocol):
    """What sees launches and operations."""

    def launched(self, launcher: Any, args: Sequence[Any], constants: Mapping[str, Any]) -> Any:
        """A kernel is about to be launched, unless this gives something true."""

    def operation(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """An operation is called; gives what it gives."""

    def applied(self, function: Any, name: str, operands: Sequence[Any], result: Any) -> None:
        """A function of numbers is about to be applied to each element."""

    def unseen(self, reads: Sequence[Any], writes: Sequence[Any], name: str = "") -> None:
        """Something made arrays of others; without a `name` it is what the user called."""


_current: Final[ContextVar[Recorder | None]] = ContextVar("portable_recorder", default=None)


def current() -> Recorder | None:
    """The recorder of this context."""
    return _current.get()


@contextmanager
def watching(recorder: Recorder | None) -> Iterator[None]:
    """Has a recorder told of what this context does inside the ``with``; None of nobody."""
    global active  # noqa: PLW0603 - a look at it is all that launches can afford
    token = _current.set(recorder)
    active += 1
    try:
        yield
    finally:
        active -= 1
        _current.reset(token)


def unwatched() -> Any:
    """Tells nobody inside the ``with``: what runs is part of what was told already."""
    return watching(None)


def operation(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Calls an operation, and tells the recorder if there is one."""
    recorder = _current.get()
    return (
        function(*args, **kwargs)
        if recorder is None
        else recorder.operation(function, args, kwargs)
    )


def through_host(made: Any, *sources: Any) -> Any:
    """An array of copies of others' elements, of which the recorder is told if there is one."""
    if active and (recorder := _current.get()) is not None:
        recorder.unseen(sources, (made,), "an array copied through the host")
    return made


def taped(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Makes a function tell the recorder of its calls, if there is one."""

    @wraps(function)
    def call(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        if active and (recorder := _current.get()) is not None:
            return cast(_Result, recorder.operation(call, args, kwargs))
        return function(*args, **kwargs)

    return call
