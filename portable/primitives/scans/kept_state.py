"""What workgroups that take turns at tiles tell each other by, from launch to launch."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable.backend import Device
from portable.dtypes import int64, uint64
from portable.primitives.base.recipe import Recipe
from portable.primitives.maps.creation_kernels import counted, generated

__all__ = ["kept_state"]


def kept_state(recipe: Recipe, device: Device, numbers: int, itemsize: int) -> Any:
    """A word of 64 bits for tickets, and one for each 32 bits of so many numbers.

    They hold zeros before the first run of the recipe; each leaves them ready for the next, which
    is over arrays alike.
    """
    state = device.empty((1 + numbers * (itemsize // 4),), uint64)
    zero = np.int64(0)
    generated[state.size](zero, zero, state, OP=counted, KIND=int64, STORED=uint64)
    return recipe.found(lambda: state)
