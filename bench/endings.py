"""Ctrl-C, and being told to end: a run keeps what it has, and says by its status what ended it."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Final, NoReturn, Self

_SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


class Endings:
    """A block in which signals to end raise KeyboardInterrupt.

    Attributes
    ----------
    status : int
        What the process is to exit with: 128 and the signal's number, as shells have it; 0 if
        there was none.
    """

    def __init__(self) -> None:
        self.status = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                # One that is ignored, as by nohup, stays so.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._end)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _end(self, number: int, frame: FrameType | None) -> NoReturn:
        self.status = 128 + number
        raise KeyboardInterrupt
