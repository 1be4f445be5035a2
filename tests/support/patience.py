"""How long tests wait for other processes before they say that these hang."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["PATIENCE", "alarms_interrupt"]

PATIENCE: Final = 900.0
"""Seconds, which the slowest machine takes for nothing that the tests start."""


@contextmanager
def alarms_interrupt() -> Iterator[None]:
    """In the block, SIGALRM interrupts as Ctrl-C does, which workers of pytest-xdist ignore."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)
