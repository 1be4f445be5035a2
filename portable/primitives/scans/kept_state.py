"""What workgroups that take turns at tiles tell each other by, from launch to launch."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable.backend import Device
from portable.primitives.base.borrowed import stored
from portable.primitives.base.by_queue import ByQueue
from portable.primitives.base.recipe import Recipe


def kept_state(recipe: Recipe, device: Device, numbers: int, itemsize: int) -> Any:
    """A word of 64 bits for tickets, and one for each 32 bits of so many numbers.

    They hold zeros before the first run of the recipe; each leaves them ready for the next, which
    is over arrays alike, in one queue.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    device : Device
        Where.
    numbers : int
        How many totals.
    itemsize : int
        Bytes of one.
    """
    words = np.zeros(1 + numbers * (itemsize // 4), np.uint64)
    return recipe.found(ByQueue(device, lambda: stored(device, device.from_numpy(words))))
