"""Tries choices in a process of its own, so that one which kills or blocks it ends no search."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Final, Self

from portable.errors import DeviceFaultError, PortableError
from portable.tune.search import Trial
from portable.tune.space import Parameters

__all__ = ["Evaluate", "Isolated"]

Evaluate = Callable[[Parameters, float], Trial]
"""Verifies and times one choice, given the best time so far."""

_READY: Final = ""
_GRACE: Final = 5.0


class Isolated:
    """An evaluator in a process of its own; a new one takes the place of one that is lost.

    A context manager, which starts the process and ends it.

    Parameters
    ----------
    make : callable
        Makes the evaluator over there; it is pickled.
    patience : float
        Seconds after which a choice is given up.
    setup : float
        Seconds that `make` may take.
    """

    def __init__(
        self, make: Callable[[], Evaluate], *, patience: float = 60.0, setup: float = 300.0
    ) -> None:
        self._make = make
        self._patience = patience
        self._setup = setup
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    def __call__(self, choice: Parameters, best: float) -> Trial:
        """The choice's time, or why there is none."""
        connection = self._connection or self._start()
        try:
            connection.send((dict(choice), best))
            if not connection.poll(self._patience):
                self._stop()
                return Trial(choice, failure=f"not done after {self._patience:g} s")
            trial, lost = connection.recv()
        except (EOFError, OSError):
            return Trial(choice, failure=f"killed its process ({self._end()})")
        if lost:
            self._stop()
        assert isinstance(trial, Trial)
        return trial

    def _start(self) -> Connection:
        """A new process, its evaluator made.

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
            self._stop()
            raise PortableError(f"what is to be tuned cannot be set up: {problem}")
        return ours

    def _end(self) -> str:
        """How the process ended, which closed its side of the connection."""
        assert self._process is not None
        self._process.join(_GRACE)
        code = self._process.exitcode
        self._stop()
        return signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"

    def _stop(self) -> None:
        """Ends the process, whatever it is doing."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if connection is not None:
            connection.close()
        if process is not None:
            process.kill()
            process.join(_GRACE)


def _serve(connection: Connection, make: Callable[[], Evaluate]) -> None:
    """Answers each choice with its trial and whether this process can do no more work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal interrupts both; ours is to end it
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # where drivers' remarks mix with no result
    try:
        evaluate = make()
    except Exception as error:  # noqa: BLE001  (whatever it is, the other side tells the user)
        connection.send(str(error) or type(error).__name__)
        return
    connection.send(_READY)
    while True:
        try:
            choice, best = connection.recv()
        except EOFError:
            return
        try:
            connection.send((evaluate(choice, best), False))
        except DeviceFaultError as error:
            connection.send((Trial(choice, failure=str(error)), True))
            return
