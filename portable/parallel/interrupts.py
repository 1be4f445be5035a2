"""Ctrl-C among processes that work together: noted, for all of them to stop at the same place."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any, Final, Self


class Interrupts:
    """A block in which Ctrl-C raises nothing at first; a context manager.

    A process that left alone what all do together would leave the others waiting for ever. So the
    first Ctrl-C is noted, for this process to tell the others where they meet next, and the second
    one raises KeyboardInterrupt. One that came too late to be told is raised at the block's end.

    Attributes
    ----------
    answered : bool
        Whether all end early for one that came in some process; set by who hears of it.

    Parameters
    ----------
    rank, size : int
        Of the process.
    """

    def __init__(self, rank: int, size: int) -> None:
        self._who: Final = f"process {rank} of {size}"
        self._came = False
        self._before: Any = None
        self.answered = False

    @property
    def came(self) -> bool:
        """Whether there was one."""
        return self._came

    def __enter__(self) -> Self:
        # Another handler than Python's is the user's, who has decided what Ctrl-C means.
        is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if is_default and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._noted)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None
        if kind is None and self._came and not self.answered:
            raise KeyboardInterrupt

    def _noted(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._came:
            raise KeyboardInterrupt
        self._came = True
        text = f"{self._who} was interrupted: all end together soon; once more, and all end now\n"
        # The stream's own buffer may be in use, which is interrupted here.
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, text.encode())
