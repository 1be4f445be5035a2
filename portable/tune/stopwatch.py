"""How long a piece of work takes on a device, by the host's clock and by the device's own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from portable.backend import Device
from portable.backend.queues import HostMark, Mark


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds per run.

    Attributes
    ----------
    wall : float
        By the host's clock, from an idle device to an idle device.
    device : float or None
        By the device's own marks; None where it makes none.
    """

    wall: float
    device: float | None = None

    @property
    def seconds(self) -> float:
        """The device's own time where there is one."""
        return self.wall if self.device is None else self.device


class Stopwatch:
    """Times work on one device.

    Parameters
    ----------
    device : Device or None
        Where the work runs; None for work that is done when its call returns.
    clock : callable
        The host's clock, in seconds.
    """

    def __init__(
        self, device: Device | None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._device = device
        self._clock = clock

    def run(self, work: Callable[[], Any], repeats: int = 1) -> Timing:
        """`repeats` runs in a row, from an idle device until it is idle again."""
        self._wait()
        first = self._mark()
        begun = self._clock()
        for _ in range(repeats):
            work()
        last = self._mark()
        if isinstance(last, HostMark):  # made when all was done
            return Timing((self._clock() - begun) / repeats)
        self._wait()
        wall = self._clock() - begun
        return Timing(wall / repeats, last.seconds_after(first) / repeats)

    def enqueue(self, work: Callable[[], Any], repeats: int = 1) -> Timing:
        """The host's share alone: until the last of `repeats` calls returns."""
        self._wait()
        begun = self._clock()
        for _ in range(repeats):
            work()
        wall = self._clock() - begun
        self._wait()
        return Timing(wall / repeats)

    def _mark(self) -> Mark:
        return HostMark() if self._device is None else self._device.mark()

    def _wait(self) -> None:
        if self._device is not None:
            self._device.synchronize()
