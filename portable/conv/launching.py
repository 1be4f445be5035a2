"""Launches of a convolution, done and remembered, so that they can be prepared for more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, NamedTuple

from portable.lang.launch.launch import Launcher

Repeated = Callable[[], None]


class Launch(NamedTuple):
    """A launch that was done."""

    launcher: Launcher
    args: tuple[Any, ...]
    constants: dict[str, Any]

    def prepared(self) -> Repeated:
        """What does it again for the same arrays."""
        return self.launcher.prepare(*self.args, **self.constants)


class _Work(NamedTuple):
    """Other work that was done, and what prepares it or does it again."""

    prepared: Callable[[], Repeated]


Step = Launch | _Work

_recording: Final[ContextVar[list[Step] | None]] = ContextVar("recording", default=None)


def enqueue(launcher: Launcher, *args: Any, **constants: Any) -> None:
    """Launches a kernel.

    Parameters
    ----------
    launcher : Launcher
    *args, **constants
        As of its call.
    """
    launcher(*args, **constants)
    steps = _recording.get()
    if steps is not None:
        steps.append(Launch(launcher, args, constants))


def enqueue_call(
    work: Callable[..., object], *args: Any, prepare: Callable[..., Any] | None = None, **more: Any
) -> None:
    """Does other work that enqueues launches.

    Parameters
    ----------
    work : callable
        Takes the arguments.
    prepare : callable, optional
        Takes them too, and gives what does the same again at less cost.
    """
    steps = _recording.get()
    token = _recording.set(None)
    try:
        work(*args, **more)
    finally:
        _recording.reset(token)
    if steps is not None:
        again = partial(work, *args, **more)
        made = partial(prepare, *args, **more) if prepare else partial(_wrapped, again)
        steps.append(_Work(made))


def _wrapped(work: Callable[[], object]) -> Repeated:
    def again() -> None:
        work()

    return again


@contextmanager
def recorded() -> Iterator[list[Step]]:
    """What `enqueue` and `enqueue_call` do in it, in order."""
    steps: list[Step] = []
    token = _recording.set(steps)
    try:
        yield steps
    finally:
        _recording.reset(token)


def repeated(work: Callable[[], object]) -> Repeated:
    """Does some work, and gives what does it again for the same arrays at the least cost.

    Parameters
    ----------
    work : callable
        Whose launches are all made by `enqueue` and `enqueue_call`.
    """
    with recorded() as steps:
        work()
    launches = [step.prepared() for step in steps]
    return launches[0] if len(launches) == 1 else partial(_in_turn, tuple(launches))


def _in_turn(launches: tuple[Repeated, ...]) -> None:
    for launch in launches:
        launch()
