"""Arrays that kernels leave as they found them, for the next launch: one for each queue.

Launches in one queue follow each other; those in two may run at the same time, and would find what
the other is about to clean up.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any

import numpy as np

from portable.backend import Device
from portable.primitives.base.borrowed import stored


class ByQueue:
    """What `make` makes, once for each queue of a device; calling it gives the current one's."""

    def __init__(self, device: Device, make: Callable[[], Any]) -> None:
        self._device = device
        self._make = make
        self._made: dict[Hashable, Any] = {}

    def __call__(self) -> Any:
        """That of the current queue, made when it is first asked for."""
        queue = self._device.current_queue()
        made = self._made.get(queue)
        if made is None:
            made = self._made[queue] = self._make()
        return made


@lru_cache(maxsize=256)
def zeros_by_queue(device: Device, count: int) -> ByQueue:
    """So many ``int32`` zeros, which kernels leave as zeros."""
    return ByQueue(device, lambda: stored(device, device.from_numpy(np.zeros(count, np.int32))))
