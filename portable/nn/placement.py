"""Where a network computes: on its own device, whatever device is in use."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Final

import numpy as np

from portable import registry
from portable.backend import Device

_AS_IT_IS: Final = nullcontext()
_SAMPLE: Final = np.empty(0, np.float32)


def computing_on(device: Device) -> AbstractContextManager[object]:
    """A block in which NumPy arrays are worked on by `device`, if that takes them.

    NumPy arrays belong to several devices, and kernels run on the one in use. Arrays of other
    libraries say themselves where they are.
    """
    if registry.device() is device or not _takes_numpy(device):
        return _AS_IT_IS
    return registry.use(device)


@cache
def _takes_numpy(device: Device) -> bool:
    return device.owns(_SAMPLE)
