"""The devices whose arrays are those of `portable.array`, and arrays for them."""

from __future__ import annotations

import pytest

from portable.array.creation import is_ours
from portable.backend import Device


@pytest.fixture
def ours(device: Device) -> Device:
    """Each device with arrays of this kind."""
    found = device.for_arrays()
    if not is_ours(found):
        pytest.skip(f"{device.name} has an array library of its own")
    return found


@pytest.fixture
def simulated(ours: Device) -> Device:
    """The simulator, where nothing is compiled: for what devices share, in many shapes."""
    if not ours.interprets:
        pytest.skip("decided before a device has a say; compilers would take minutes")
    return ours
