"""Compilers' remarks on generated code, which are of no use to the user."""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from threading import Lock
from typing import Final

import pyopencl as cl


class _Quiet:
    """A context, of any number of threads at once, in which remarks become no warnings.

    Filters of warnings are everybody's: a thread that took its own away would bring the remarks of
    the others back. The first thread sets one, the last takes it away.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._set = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._set.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore", cl.CompilerWarning)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._set.close()


quiet: Final = _Quiet()
