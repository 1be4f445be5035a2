"""How long tests wait for other processes before they say that these hang."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

PATIENCE: Final = 900.0
"""Seconds, which the slowest machine takes for nothing that the tests start."""


@contextmanager
def alarms_interrupt() -> Iterator[None]:
    """In the block, SIGALRM interrupts as Ctrl-C does, which workers of pytest-xdist ignore.

    The collector keeps still: Python loses what is raised in its callbacks, of which Hypothesis
    has one, and whoever waits for the interrupt would wait for ever.
    """
    if not hasattr(signal, "SIGALRM"):
        pytest.skip("the system has no alarms")
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if collecting:
            gc.enable()
