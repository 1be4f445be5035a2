"""Work in a process of its own, so that work which kills or blocks it ends nothing else."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Final, Generic, Self, TypeVar

from portable.errors import DeviceFaultError, PortableError

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
