"""What one door keeps of an array does not lead another door astray."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import portable
from portable import primitives
from portable.array.base.defaults import is_ours
from portable.backend import Device
from tests.doors.doors import ELEMENTS, PRODUCT, SORT, TOTAL, Operation
from tests.doors.ways import PROFILES


@pytest.mark.parametrize(
    "operation", [PRODUCT, TOTAL, SORT, ELEMENTS], ids=lambda operation: operation.name
)
def test_arrays_first_seen_by_another_door(device: Device, operation: Operation) -> None:
    """Each pair of doors, on arrays that are new to the first one."""
    doors = [d for d in operation.doors if d.any_library or is_ours(device)]
    random = np.random.default_rng(3)
    count = 2 if operation in (PRODUCT, ELEMENTS) else 1
    with portable.use(device):
        for pair in permutations(doors, 2):
            host = [random.integers(-8, 9, (12, 12)).astype(np.float32) for _ in range(count)]
            given = [device.from_numpy(x) for x in host]
            for door in pair:
                found = portable.to_numpy(door.call(portable.xp(device), *given))
                np.testing.assert_array_equal(found, operation.expected(*host))


@pytest.mark.parametrize("first", PROFILES)
def test_tunables_are_those_of_the_device_that_runs(first: str) -> None:
    """The same arrays on two devices in turn, each of which does it in a way of its own."""
    a = np.arange(50 * 40, dtype=np.float32).reshape(50, 40) % 7
    kernels = {PROFILES[0]: "scan_by_workgroup", PROFILES[1]: "scan_rows"}
    order = sorted(PROFILES, key=lambda name: name != first)
    for name in (*order, *order):
        with portable.use(name), portable.profile() as profile:
            found = portable.to_numpy(primitives.scan(a, axis=1))
        np.testing.assert_array_equal(found, np.cumsum(a, axis=1))
        launched = [span.entry.name for span in profile.spans if span.entry.kind == "launch"]
        assert launched == [kernels[name]]
