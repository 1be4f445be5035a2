"""Defers Python's collection of cyclic garbage while many objects are made."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final


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
