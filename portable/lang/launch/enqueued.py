"""Records the launches of an operation, so that they can be repeated at less cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, NamedTuple

from portable.backend import Device
from portable.lang.launch.launch import Launcher

Repeated = Callable[[], Any]


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


class _Recording(NamedTuple):
    """Steps, and whether they are prepared only."""

    steps: list[Step]
    prepares: bool = False


RECORDING: Final[ContextVar[_Recording | None]] = ContextVar("recording", default=None)
"""Launches that are being recorded."""


def enqueue(launcher: Launcher, *args: Any, **constants: Any) -> None:
    """Launches a kernel.

    Parameters
    ----------
    launcher : Launcher
    *args, **constants
        As of its call.
    """
    recording = RECORDING.get()
    if recording is not None and recording.prepares:
        launch = launcher.prepare(*args, **constants)
        recording.steps.append(_Work(lambda: launch))
        return
    launcher(*args, **constants)
    if recording is not None:
        recording.steps.append(Launch(launcher, args, constants))


@contextmanager
def attempted() -> Iterator[None]:
    """Launches of which none counts where one fails."""
    recording = RECORDING.get()
    count = 0 if recording is None else len(recording.steps)
    try:
        yield
    except BaseException:
        if recording is not None:
            del recording.steps[count:]
        raise


def enqueue_call(work: Callable[..., object], *args: Any, **more: Any) -> None:
    """Does other work that enqueues launches; it takes the arguments."""
    recording = RECORDING.get()
    token = RECORDING.set(None)
    try:
        work(*args, **more)
    finally:
        RECORDING.reset(token)
    if recording is not None:
        recording.steps.append(_Work(lambda: partial(work, *args, **more)))


@contextmanager
def recorded(*, prepares: bool = False) -> Iterator[list[Step]]:
    """What `enqueue` and `enqueue_call` do in it, in order; launches may be prepared only."""
    recording = _Recording([], prepares)
    token = RECORDING.set(recording)
    try:
        yield recording.steps
    finally:
        RECORDING.reset(token)


def repeated(device: Device, work: Callable[[], object], *, prepares: bool = False) -> Repeated:
    """Does some work, and gives what does it again for the same arrays at the least cost.

    Parameters
    ----------
    device : Device
        Where it is done.
    work : callable
        Whose launches are all made by `enqueue` and `enqueue_call`.
    prepares : bool
        Whether it is not done now.
    """
    with recorded(prepares=prepares) as steps:
        work()
    launches = [step.prepared() for step in steps]
    return launches[0] if len(launches) == 1 else device.joined(launches)
