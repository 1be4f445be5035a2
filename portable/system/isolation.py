"""Work in a process of its own, so that work which kills or blocks it ends nothing else."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Final, Generic, ParamSpec, Self, TypeVar

from portable.errors import DeviceFaultError, PortableError


def usable_cores() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# Room for deep calls.
#
# CPython keeps the frames of calls in pieces of 16 KiB, and returns a piece to the system as soon
# as the frames in it have ended. Where calls go up and down at the edge of a piece, each asks for
# memory and returns it: an eighth of the time of what walks through trees.


_P = ParamSpec("_P")
_R = TypeVar("_R")

_WORDS: Final = 66_000
"""Of a frame, so many that its piece is one of 1 MiB, of which half is left for others."""


def with_room(function: Callable[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """What a function returns, whose further calls have their frames in one piece of memory."""
    return function(*args, **kwargs)


with_room.__code__ = with_room.__code__.replace(co_stacksize=_WORDS)


# Defers Python's collection of cyclic garbage while many objects are made.


class _Pause:
    """Whether the collector is off now."""

    def __init__(self) -> None:
        self.lasts = False

    def begin(self) -> None:
        """No collections from now on."""
        gc.disable()
        self.lasts = True

    def end(self) -> None:
        """Collects again; in a forked child, too, which lacks the thread that would end it."""
        if self.lasts:
            self.lasts = False
            gc.enable()


_pause: Final = _Pause()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pause.end)


@contextmanager
def collected_later() -> Iterator[None]:
    """Leave circles of garbage to a later look, for work that makes many objects and few circles.

    A kernel under translation is ten thousands of small objects, which Python would look through
    again and again: a tenth of the time.
    """
    if not gc.isenabled():  # by the user, or by another thread, which will enable it
        yield
        return
    _pause.begin()
    try:
        yield
    finally:
        _pause.end()


_READY: Final = ""
_GRACE: Final = 5.0
_Answer = TypeVar("_Answer")


class LostError(PortableError):
    """The process that was asked is gone, can do no more work, or was given up."""


class Isolated(Generic[_Answer]):
    """A function in a process of its own; a new one takes the place of one that is lost.

    A context manager, which starts the process and ends it.

    Parameters
    ----------
    make : callable
        Makes the function over there; it is pickled, and so are arguments and answers.
    patience : float
        Seconds after which an answer is waited for no longer.
    setup : float
        Seconds that `make` may take.
    what : str
        What cannot be set up if `make` fails.
    """

    def __init__(
        self,
        make: Callable[[], Callable[..., _Answer]],
        *,
        patience: float = 60.0,
        setup: float = 300.0,
        what: str = "the process",
    ) -> None:
        self.patience = patience
        self._make = make
        self._setup = setup
        self._what = what
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __call__(self, *arguments: Any) -> _Answer:
        """The function's answer.

        Raises
        ------
        LostError
            If there is none: the process died, blocked, or raised `DeviceFaultError`.
        """
        connection = self._connection or self._start()
        try:
            connection.send(arguments)
            if not connection.poll(self.patience):
                self.stop()
                raise LostError(f"not done after {self.patience:g} s")
            succeeded, answer = connection.recv()
        except (EOFError, OSError):
            raise LostError(f"killed its process ({self._end()})") from None
        if not succeeded:
            self.stop()
            raise LostError(str(answer))
        return answer  # type: ignore[no-any-return]

    def stop(self) -> None:
        """Ends the process, whatever it is doing; the next call starts another."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if connection is not None:
            connection.close()
        if process is not None:
            process.kill()
            process.join(_GRACE)

    def _start(self) -> Connection:
        """A new process, its function made.

        Raises
        ------
        PortableError
            If that fails.
        """
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._make), daemon=True)
        self._connection = ours
        self._process.start()
        theirs.close()
        try:
            problem = ours.recv() if ours.poll(self._setup) else f"not done after {self._setup:g} s"
        except (EOFError, OSError):
            problem = f"its process is gone ({self._end()})"
        if problem != _READY:
            self.stop()
            raise PortableError(f"{self._what} cannot be set up: {problem}")
        return ours

    def _end(self) -> str:
        """How the process ended, which closed its side of the connection."""
        assert self._process is not None
        self._process.join(_GRACE)
        code = self._process.exitcode
        self.stop()
        return signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"


def _serve(connection: Connection, make: Callable[[], Callable[..., Any]]) -> None:
    """Answers each call with whether there is an answer, and the answer or why there is none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal interrupts both; ours is to end it
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # where drivers' remarks mix with no result
    try:
        function = make()
    except Exception as error:  # noqa: BLE001  (whatever it is, the other side tells the user)
        connection.send(str(error) or type(error).__name__)
        return
    connection.send(_READY)
    while True:
        try:
            arguments = connection.recv()
        except EOFError:
            return
        try:
            connection.send((True, function(*arguments)))
        except DeviceFaultError as error:
            connection.send((False, str(error)))
            return
