"""A sign of life from a run whose output is no terminal: a line every ten seconds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Self

__all__ = ["Heartbeat"]

_SECONDS: Final = 10.0


class Heartbeat:
    """A block during which what is done is told again and again.

    Parameters
    ----------
    said : callable
        Gives the line.
    tell : callable or None
        Takes it; None: nothing is told.
    seconds : float
        How long between two lines.
    """

    def __init__(
        self,
        said: Callable[[], str],
        tell: Callable[[str], None] | None,
        seconds: float = _SECONDS,
    ) -> None:
        self._said, self._tell, self._seconds = said, tell, seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        if self._tell is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        assert self._tell is not None
        while not self._over.wait(self._seconds):
            self._tell(self._said())
