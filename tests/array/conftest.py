"""The devices whose arrays are those of `portable.array`, and arrays for them."""

from __future__ import annotations

import pytest

from portable.backend import Device


@pytest.fixture
def ours(device: Device) -> Device:
    """Each device with arrays of this kind."""
    return device.for_arrays()


@pytest.fixture
def simulated(ours: Device) -> Device:
    """The simulator, where nothing is compiled: for what devices share, in many shapes."""
    return ours
