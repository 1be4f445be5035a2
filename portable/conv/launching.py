"""Launches of a convolution, done and remembered, so that they can be prepared for more."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, Final

from portable.lang.launch.launch import Launcher

__all__ = ["Repeated", "enqueue", "enqueue_call", "repeated"]

Repeated = Callable[[], None]

_recording: Final[ContextVar[list[Callable[[], Repeated]] | None]] = ContextVar(
    "recording", default=None
)


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
        steps.append(partial(launcher.prepare, *args, **constants))


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
    work(*args, **more)
    steps = _recording.get()
    if steps is not None:
        again = partial(work, *args, **more)
        steps.append(partial(prepare, *args, **more) if prepare else partial(_wrapped, again))


def _wrapped(work: Callable[[], object]) -> Repeated:
    def again() -> None:
        work()

    return again


def repeated(work: Callable[[], object]) -> Repeated:
    """Does some work, and gives what does it again for the same arrays at the least cost.

    Parameters
    ----------
    work : callable
        Whose launches are all made by `enqueue` and `enqueue_call`.
    """
    steps: list[Callable[[], Repeated]] = []
    token = _recording.set(steps)
    try:
        work()
    finally:
        _recording.reset(token)
    launches = [step() for step in steps]
    return launches[0] if len(launches) == 1 else partial(_in_turn, tuple(launches))


def _in_turn(launches: tuple[Repeated, ...]) -> None:
    for launch in launches:
        launch()
