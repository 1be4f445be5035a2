"""A timer by the host's clock, for devices that finish launches at once."""

from __future__ import annotations

import time
from collections.abc import Callable

from portable.backend import Timer

__all__ = ["HostTimer"]


class HostTimer(Timer):
    """Times between two moments at which the device was idle.

    Parameters
    ----------
    synchronize : callable
        Waits for the device.
    """

    def __init__(self, synchronize: Callable[[], None]) -> None:
        self._synchronize = synchronize
        self._started = 0.0
        self._stopped = 0.0

    def start(self) -> None:
        """Mark the beginning."""
        self._synchronize()
        self._started = time.perf_counter()

    def stop(self) -> None:
        """Mark the end."""
        self._synchronize()
        self._stopped = time.perf_counter()

    def seconds(self) -> float:
        """Seconds between the two marks."""
        return self._stopped - self._started
