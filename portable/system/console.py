"""What a terminal is told: how far work is, and text of others that must not steer it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import perf_counter
from typing import Final, Self

_PATIENCE: Final = 2.0
"""Seconds after which a terminal is told what it waits for."""
_EACH: Final = 1.0

_OFTEN: Final = 0.1
"""Seconds from one look at the progress to the next."""


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """A context that a terminal is told of, with the seconds that it has taken, if it takes long.

    Nothing is written where standard error is no terminal, and the line is wiped out at the end.

    Parameters
    ----------
    what : str
        What is done.
    """
    if not sys.stderr.isatty():
        yield
        return
    done = Event()
    teller = Thread(target=_tell, args=(what, done), daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def _tell(what: str, done: Event) -> None:
    start, told = perf_counter(), False
    while not done.wait(_EACH if told else _PATIENCE):
        told = True
        sys.stderr.write(f"\r{printable(what)}: {perf_counter() - start:.0f} s")
        sys.stderr.flush()
    if told:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def printable(text: str) -> str:
    """`text` with whatever would steer a terminal, or cannot be encoded, as Python writes it.

    Names of devices, files and packages are other people's, and may hold escape sequences.
    """
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


class Progress:
    """A line on the error output that says how far something is; wiped out at its end.

    A context manager. Where the error output is no terminal only what is said is written.

    Parameters
    ----------
    shown : bool, optional
        Whether the line is written; where the error output is a terminal, if left out.
    """

    def __init__(self, shown: bool | None = None) -> None:
        self.shown = sys.stderr.isatty() if shown is None else shown
        self._began = perf_counter()
        self._next = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._write("")

    def update(self, text: str, share: float | None = None) -> None:
        """Says what is done now, and how much of all is done, from 0 to 1."""
        now = perf_counter()
        if now < self._next and share != 1:
            return
        self._next = now + _OFTEN
        if share:
            left = (now - self._began) * (1 - share) / share
            text = f"{share:4.0%} {text}, {left:.0f} s left" if share < 1 else f"100% {text}"
        self._write(printable(text)[: shutil.get_terminal_size().columns - 1])

    def say(self, text: str) -> None:
        """Writes a line that stays."""
        self._write("")
        sys.stderr.write(f"{printable(text)}\n")

    def _write(self, line: str) -> None:
        if self.shown:
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()
